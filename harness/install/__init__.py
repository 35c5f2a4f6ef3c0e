"""Installation into a runtime's folders, and the runtimes' own configuration."""
