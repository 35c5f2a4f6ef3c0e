"""Checks of runtimes, by the requests that recorders, which are plugins with a script, have written down."""
