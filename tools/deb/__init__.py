"""The Debian package: `python -m tools.deb` builds it from the wheels in build/wheels.

It has no part in the choice of a network: it brings plugins, and puts no list into /etc/cni/net.d. A list of its own
there could come before that of a cluster whose network is yet to be installed.
"""
