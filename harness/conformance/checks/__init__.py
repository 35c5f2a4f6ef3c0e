"""The checks, a module for each subject; `harness.conformance.catalogue` finds them."""
