"""A container runtime's part: pods, their sandboxes, and the node that they are on."""
