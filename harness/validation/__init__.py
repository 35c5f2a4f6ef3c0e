"""Checks of configurations against their schemas and rules; nothing is made."""
