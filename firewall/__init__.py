"""The firewall's part of an attachment: `masquerade`, `spoofcheck`, `port_mappings` and `admission`.

Each is a table of backends.
"""
