"""Measuring plugins side by side: the implementation of `cni-harness bench`."""
