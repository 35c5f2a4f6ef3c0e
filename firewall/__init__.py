"""The firewall's part of an attachment: `masquerade` and `spoofcheck`, each a table of backends."""
