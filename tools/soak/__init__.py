"""Plugins and agents that signals end, at random moments and at each system call; long lives; and the leftovers."""
