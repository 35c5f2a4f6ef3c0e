"""Tests with a real API server: `make test-kubernetes`."""
