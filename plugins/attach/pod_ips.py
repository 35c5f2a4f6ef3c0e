"""The addresses that a result gives to the pod's interface. Imports nothing slow: every DEL with `ipMasq` loads it."""

from skel import IPConfig, Result


def pod_ips(result: Result | None, ifname: str, netns: str) -> list[IPConfig]:
    """Return the addresses of the pod's interface; addresses without an index count as its own."""
    if result is None:
        return []
    own = {
        index
        for index, interface in enumerate(result.interfaces)
        if interface.name == ifname and (interface.sandbox == netns or not netns)
    }
    return [ip for ip in result.ips if ip.interface is None or ip.interface in own]
