"""Configurations held against their schemas and rules, without making anything."""
