"""Runtimes with one fault each, made of this project's libcni."""
