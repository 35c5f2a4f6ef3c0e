"""Plugins that SIGTERM ends, at random moments and at each system call, and a look for what is left of them."""
