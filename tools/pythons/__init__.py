"""Unit tests with other versions of Python than this machine's, each on the Debian that has the version."""
