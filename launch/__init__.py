"""How a plugin becomes a process: the executables of a bin dir, the server, the installation, the list of plugins."""
