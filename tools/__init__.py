"""What the Makefile needs besides the project itself."""
