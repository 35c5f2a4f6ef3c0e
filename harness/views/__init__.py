"""Views of a node and of its events: topology, faults, traces. They read, and change nothing."""
