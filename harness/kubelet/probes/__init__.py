"""Probes and hooks of containers: their actions, threads and results."""
