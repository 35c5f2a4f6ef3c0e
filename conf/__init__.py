"""Network lists ready to copy to `/etc/cni/net.d`, one per use.

The first in order of name is the one that `cni-harness` uses where nothing is configured.
"""
