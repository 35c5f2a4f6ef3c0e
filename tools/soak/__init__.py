"""Plugins that SIGTERM ends, at random moments and at each system call, and a search for leftovers."""
