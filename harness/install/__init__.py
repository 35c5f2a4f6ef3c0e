"""Installation into a runtime's folders, and the configuration of runtimes."""
