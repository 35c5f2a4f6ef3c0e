"""REPAIR of every interface plugin: other programs' removals on the host are taken back, the pod is left alone.

The verb is this project's own (docs/repair.md). An attachment in order is looked at, and nothing is changed. An
attachment of the reference suite gets its firewall rules back in that suite's form, so that either suite's DEL finds
them.
"""

from fast_stdlib.typing import Any
from plugins.attach.attachment import kept_rtnl, open_pod, pod_ips
from plugins.attach.driver import Attached, Driver
from plugins.attach.interface_config import MasqueradeConfig
from skel import CniError, Code
from skel.steps import Steps


def repair(driver: Driver[Any]) -> None:
    """Put back the driver's part of the host, then masquerading; go on past errors and report them together.

    Raises CniError: 4 if the pod's network namespace is missing, 7 without prevResult, 999 if the pod has lost its
    interface. Raises OSError.
    """
    from netlink.rtnl import Rtnl
    from plugins.attach import pod_interface

    args = driver.args
    if args.prev_result is None:
        raise CniError(Code.INVALID_CONFIG, "prevResult: required key is missing")
    with open_pod(args) as netns, kept_rtnl(args) as host, Rtnl(netns) as pod:
        inner = pod_interface.require_interface(pod, args.ifname)
        at = Attached(host, netns, pod, inner, args.prev_result)
        with Steps() as steps:
            driver.repair(at, steps)
            if driver.config.ipam.type and isinstance(driver.config, MasqueradeConfig) and driver.config.ip_masq:
                steps.take(_masquerade, driver, at)


def _masquerade(driver: Driver[Any], at: Attached) -> None:
    from firewall import masquerade
    from plugins.attach.host_veth import is_of_reference

    args = driver.args
    # A later plugin's addresses have no gateway, and nothing masquerades them.
    own = pod_ips(at.result, args.ifname, args.netns)
    addresses = [ip.address for ip in own if ip.gateway is not None] or [ip.address for ip in own]
    by_reference = is_of_reference(args, at.host)
    masquerade.repair(driver.tables, driver.owner, addresses, driver.config.ip_masq_backend, by_reference=by_reference)
