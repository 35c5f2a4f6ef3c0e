"""Programs of the Makefile, besides the project itself."""
