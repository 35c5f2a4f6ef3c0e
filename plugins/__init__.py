"""The interface plugins, one module each, and noop; each module declares a `PLUGIN`.

The kernel is changed through `netlink`, addresses come from the IPAM plugin that `skel.delegate` calls.
"""
