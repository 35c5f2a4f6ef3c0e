"""Reports of the suite's findings, for people and for programs."""
