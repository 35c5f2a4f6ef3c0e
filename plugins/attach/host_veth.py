"""The host's end of a pod's veth pair: found from the attachment alone.

Its name follows from the container ID and the interface name, so that DEL
needs neither the pod's namespace nor a record of what ADD did. Its alias says
whose it is, for people and for GC.
"""

from lean.hashing import sha256

__all__ = ["host_veth_name"]

_IFNAME_MAX = 15


def host_veth_name(container_id: str, ifname: str) -> str:
    """Return the name of an attachment's host veth: "veth" and 44 bits of a hash, as long as names may be."""
    digest = sha256(f"{container_id}\0{ifname}".encode()).hexdigest()
    return f"veth{digest}"[:_IFNAME_MAX]
