"""A container runtime's functions: pods, their sandboxes, and their node."""
