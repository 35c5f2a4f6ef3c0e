"""The kernel: links, addresses, routes, network namespaces, firewall and sysctls, as small typed verbs.

The only package that imports pyroute2. No word of CNI in here. Import the module you need: `netlink.namespace` and
`netlink.sysctl` are light, the firewall modules are not. pyroute2 is loaded by what needs it, when it is first called.
"""

from netlink.lean_pyroute2 import install

install()
