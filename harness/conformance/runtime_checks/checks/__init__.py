"""The checks on runtimes, a module for each part of the specification."""
