"""The daemon of the dhcp plugin: one process that gets, renews and releases the leases of all pods.

`lease` is the life of a lease as one table, `dhcpv4` and `dhcpv6` are the packets, `sockets` sends them in a pod's
network namespace, `attachment` connects these, `store` keeps the leases on disk, and `service` is the socket on which
the plugin asks. pyroute2's DHCP client is not used: it has a task and two sockets for each lease, and no DHCPv6.
"""
