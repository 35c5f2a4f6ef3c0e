"""Network lists ready to copy to `/etc/cni/net.d`, one per use.

`cni-harness` uses the first in order of name if nothing is configured.
"""
