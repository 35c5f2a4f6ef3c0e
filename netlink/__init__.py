"""The kernel: links, addresses, routes, network namespaces, nftables and sysctls, as small typed verbs.

The only package that imports pyroute2. No word of CNI in here. Import the module you need: each loads no more than it
uses, and pyroute2 is loaded by the first call that needs it.
"""
