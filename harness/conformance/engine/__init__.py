"""The engine: it runs checks on plugins, each on a node of its own, and makes findings of their outcomes."""
