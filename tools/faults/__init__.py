"""Break a line of the product, and see that a test fails: `python -m tools.faults`."""
