"""The daemon of the dhcp plugin: one process that gets, renews and releases the leases of all pods.

- `lease`: the life of a lease, as one table;
- `dhcpv4` and `dhcpv6`: the messages;
- `sockets`: sending and receiving them in a pod's network namespace;
- `client`: one lease, which uses these; `attachment` and `leases`: the leases of one pod, and of all;
- `store`: the leases on disk;
- `program`: the flags of the daemon, and the socket on which the plugin asks.

pyroute2's DHCP client is not used: it has a task and two sockets for each lease, and no DHCPv6.
"""
