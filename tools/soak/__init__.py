"""Plugins that signals end, at random moments and at each system call; workers that live long; and their leftovers."""
