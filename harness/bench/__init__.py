"""Measuring plugins side by side: what `cni-harness bench` is made of."""
