"""Kubernetes' v1 types: how they are read, written, completed and validated. Imports nothing of the project."""
