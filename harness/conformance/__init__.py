"""The conformance suite: what any CNI plugin is held to, checked from outside."""
