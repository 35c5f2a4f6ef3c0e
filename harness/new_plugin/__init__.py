"""A new distribution with one plugin, written from the templates in this folder."""

from .distribution import NewPluginError, write_distribution

__all__ = ["NewPluginError", "write_distribution"]
