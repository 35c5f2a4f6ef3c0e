"""Views of a node and of what happens on it: topology, faults, traces. They read, and change nothing."""
