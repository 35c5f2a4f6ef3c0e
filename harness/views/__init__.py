"""Views of a node: its topology and its faults. They read, and change nothing."""
