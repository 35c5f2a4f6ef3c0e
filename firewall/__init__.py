"""The firewall's share of an attachment: masquerading and the check of source MACs."""
