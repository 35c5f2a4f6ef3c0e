"""The sequence of an attachment: each verb of every interface plugin, around a driver.

Slow modules are imported where they are needed: a DEL of a pod that is gone ends with one look-up.
"""

from fast_stdlib import span
from fast_stdlib.typing import Any, Callable, Sequence, TypeVar
from plugins.attach.attachment import kept_rtnl, open_pod, pod_ips, valid_owners
from plugins.attach.driver import Adding, Attached, Driver, interface_of
from plugins.attach.interface_config import AUTO, MTU_MIN, InterfaceConfig, MasqueradeConfig, random_mac
from skel import Args, Cidr, CniError, Code, Interface, Plugin, Result
from skel.delegate import ipam_add, ipam_check, ipam_delete, ipam_gc, ipam_status
from skel.steps import Steps
from skel.versions import REFERENCE_RELEASE

C = TypeVar("C", bound=InterfaceConfig)

_SPEAK_THROUGH_POD = {"dhcp"}
"""IPAM plugins whose DEL needs the pod's interface. They take the addresses from it before they release them."""


def interface_plugin(
    name: str,
    config: type[C],
    driver: Callable[[Args[C]], Driver[C]],
    *,
    env_args: Sequence[str] = ("MAC", "IP", "GATEWAY"),
    version: str = REFERENCE_RELEASE,
) -> Plugin[C]:
    """Declare an interface plugin; `driver` is its class of `Driver`, the rest is as of skel.Plugin."""
    return Plugin(
        name,
        config=config,
        add=lambda args: _add(driver(args)),
        delete=lambda args: _delete(driver(args)),
        check=lambda args: _check(driver(args)),
        gc=lambda args: _gc(driver(args)),
        status=lambda args: _status(driver(args)),
        repair=lambda args: _repair(driver(args)),
        env_args=env_args,
        version=version,
    )


def _add(driver: Driver[Any]) -> Result:
    """Make the pod's interface, configure it with what IPAM reserves, and return the result.

    Every step registers its inverse before it begins, so a failure or a signal at any point leaves nothing.
    """
    args = driver.args
    config = driver.config
    config.check_for_add()
    mac = config.requested_mac(args.cni_args) or random_mac()
    with open_pod(args) as netns, kept_rtnl(args) as host, driver.open_undo(host) as undo:
        at = Adding(host, netns, undo, mac, Result())
        if config.mtu == AUTO:
            _settle_mtu(driver, at)
        with span("make links"):
            ifindex = driver.make(at)
        gateways = _reserve(driver, at)
        if ifindex:
            _connect(driver, at, ifindex, gateways)
        else:
            at.result.interfaces.append(Interface(name=args.ifname, sandbox=args.netns))
        if config.dns is not None:
            at.result.dns = config.dns
    return at.result


def _reserve(driver: Driver[Any], at: Adding) -> list[Cidr]:
    """Put the addresses, routes and DNS settings of the IPAM plugin into the result; return the host's gateways."""
    args, result = driver.args, at.result
    if not driver.config.ipam.type:
        driver.without_ipam(result)
        return []
    reserved = ipam_add(args)
    at.undo.add(ipam_delete, args)
    result.ips, result.routes, result.dns = reserved.ips, reserved.routes, reserved.dns
    for ip in result.ips:
        ip.interface = len(result.interfaces)  # the pod's, which comes next
    return driver.gateways(result)


def _connect(driver: Driver[Any], at: Adding, ifindex: int, gateways: list[Cidr]) -> None:
    """Configure the pod's interface, then the host; announce the pod when its neighbours can hear it."""
    from plugins.attach import pod_interface

    args, config, result = driver.args, driver.config, at.result
    with pod_interface.opened(at.netns, args.ifname, result, dad=driver.dad) as pod:
        with span("configure pod", waits=driver.dad):
            if driver.leaves_down:
                inner = pod_interface.require_interface(pod, args.ifname)
            else:
                inner = pod_interface.configure(
                    pod,
                    ifindex,
                    args.ifname,
                    result,
                    dad=driver.dad,
                    own_routes=driver.pod_routes(result, ifindex),
                    wait_reachable=lambda: driver.wait_reachable(at, pod),
                    waiting=args.interruption.waiting,
                )
        result.interfaces.append(interface_of(inner, args.netns))
        with span("after IPAM"):
            driver.after_ipam(at, gateways)
            if gateways:
                from plugins.attach.gateways import forward

                forward(gateways)
        if config.ipam.type and _masquerades(driver):
            from firewall import masquerade

            addresses, owner, tables = [ip.address for ip in result.ips], driver.owner, driver.tables
            at.undo.add(masquerade.remove, tables, owner, addresses)
            with span("masquerade"):
                masquerade.apply(tables, owner, addresses, config.ip_masq_backend, config.ip_masq_except)
        if not driver.leaves_down:
            # Last: the announcement attracts packets, and they need everything above.
            with span("announce"):
                with args.interruption.waiting():
                    driver.wait_reachable(at, pod)
                driver.announce(pod, inner)


def _delete(driver: Driver[Any]) -> None:
    """Delete the links, the firewall rules, then the reservation; go on past errors and report them together."""
    args = driver.args
    with Steps() as steps:
        steps.take(_release, args, through_pod=True)
        # While the links exist, IPAM must not give their addresses to another pod. So the links go first.
        driver.unmake(steps)
        if _masquerades(driver):
            from firewall import masquerade

            addresses = [ip.address for ip in pod_ips(args.prev_result, args.ifname, args.netns)]
            # The owner within the step: reading the network's name may raise its decoding error.
            steps.take(lambda: masquerade.remove(driver.tables, driver.owner, addresses))
        steps.take(_release, args, through_pod=False)


def _check(driver: Driver[Any]) -> None:
    """Raise CniError for a difference between the kernel and ADD's result (SPEC.md section 2, CHECK)."""
    from netlink.rtnl import Rtnl
    from plugins.attach import pod_interface

    args, result = driver.args, driver.args.prev_result
    if driver.config.ipam.type:
        ipam_check(args)
    if result is None:
        raise CniError(Code.INVALID_CONFIG, "prevResult: required key is missing")
    if not driver.has_link:
        return
    with open_pod(args) as netns, Rtnl() as host, Rtnl(netns) as pod:
        inner = pod_interface.check_interface(
            pod, result, args.ifname, args.netns, kind=driver.kind, may_be_down=driver.leaves_down
        )
        at = Attached(host, netns, pod, inner, result)
        driver.verify(at)
        _check_mtu(driver, at)
        addresses = [ip.address for ip in pod_ips(result, args.ifname, args.netns)]
        pod_interface.check_addresses_and_routes(pod, inner, result.routes, addresses)
        if driver.config.ipam.type and _masquerades(driver):
            _check_masquerade(driver, at, addresses)


def _check_masquerade(driver: Driver[Any], at: Attached, addresses: Sequence[Cidr]) -> None:
    """Raise CniError (999) for addresses that are not masqueraded, or with other exceptions."""
    from firewall import masquerade
    from plugins.attach.host_veth import is_of_reference

    # A later plugin may have added addresses, which nothing masquerades: those come without a gateway.
    optional = [ip.address for ip in at.result.ips if ip.gateway is None]
    exceptions = driver.config.ip_masq_except
    if exceptions and is_of_reference(driver.args, at.host):
        exceptions = []  # the reference does not know the key
    missing = masquerade.holds(driver.tables, driver.owner, addresses, optional, exceptions)
    if missing:
        but = f" with ipMasqExcept {', '.join(map(str, exceptions))}" if exceptions else ""
        raise CniError(Code.INTERNAL, f"not masqueraded{but}: {', '.join(map(str, missing))}")


def _gc(driver: Driver[Any]) -> None:
    """Remove leftovers of attachments of this network that are no longer valid; go on past errors."""
    from plugins.attach.host_veth import collect_host_veths

    args, config = driver.args, driver.config
    with Steps() as steps:
        valid = valid_owners(args)
        if valid is not None:
            if driver.kind == "veth":
                steps.take(collect_host_veths, config.name, valid)
            if isinstance(config, MasqueradeConfig):
                from firewall import masquerade

                # Also with `ipMasq: false`: pods may have been added before it was turned off.
                steps.take(masquerade.collect, driver.tables, config.name, valid)
            driver.stale(valid, steps)
        steps.take(_with_ipam, args, ipam_gc)


def _status(driver: Driver[Any]) -> None:
    """Raise CniError (7, 50, 51) if no ADD could succeed now."""
    driver.config.check_for_add()
    driver.status()
    if driver.config.ipam.type:
        ipam_status(driver.args)


def _repair(driver: Driver[Any]) -> None:
    """Put back the driver's part of the host, then masquerading; go on past errors and report them together.

    An attachment of the reference suite gets its firewall rules back in that suite's form, so that either suite's DEL
    finds them (docs/repair.md). Raises CniError: 4 if the pod's network namespace is missing, 7 without prevResult, 999
    if the pod has lost its interface. Raises OSError.
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
            if driver.config.ipam.type and _masquerades(driver):
                steps.take(_repair_masquerade, driver, at)


def _repair_masquerade(driver: Driver[Any], at: Attached) -> None:
    from firewall import masquerade
    from plugins.attach.host_veth import is_of_reference

    args = driver.args
    # A later plugin's addresses have no gateway, and nothing masquerades them.
    own = pod_ips(at.result, args.ifname, args.netns)
    addresses = [ip.address for ip in own if ip.gateway is not None] or [ip.address for ip in own]
    by_reference = is_of_reference(args, at.host)
    masquerade.repair(
        driver.tables,
        driver.owner,
        addresses,
        driver.config.ip_masq_backend,
        driver.config.ip_masq_except,
        by_reference=by_reference,
    )


def _settle_mtu(driver: Driver[Any], at: Adding) -> None:
    """Replace "auto" in the driver's configuration by bytes, before ADD makes anything.

    Without a default route it is 0, the kernel's own default. Raises CniError (7) if the overhead leaves too little.
    """
    found = driver.path_mtu(at)
    if found is None:
        driver.args.log('mtu: "auto": there is no default route: the MTU is the kernel\'s default')
        driver.config.mtu = 0
        return
    if found.mtu < MTU_MIN:
        message = f"mtuOverhead: expected at most {found.mtu + found.overhead - MTU_MIN}, got {found.overhead}"
        raise CniError(Code.INVALID_CONFIG, f"{message}: it leaves {found.mtu} bytes ({found.reason})")
    driver.config.mtu = found.mtu


def _check_mtu(driver: Driver[Any], at: Attached) -> None:
    """Raise CniError (999) if the pod's interface has another MTU than "auto" stands for now, or than prevResult says.

    A result before 1.1.0 says none. A tuning plugin may have set another one, and the reference's does so without
    changing the result: its own CHECK compares the MTU then.
    """
    args, inner = driver.args, at.inner
    found = driver.path_mtu(at) if driver.config.mtu == AUTO else None
    if found is not None:
        expected, source = found.mtu, f'mtu: "auto" stands for {found.mtu} ({found.reason})'
    else:
        here = [each for each in at.result.interfaces if (each.name, each.sandbox) == (args.ifname, args.netns)]
        expected, source = here[0].mtu, f"prevResult says {here[0].mtu}"
    if expected not in {0, inner.mtu} and not _is_tuned(args):
        raise CniError(Code.INTERNAL, f'MTU of "{inner.name}" is {inner.mtu}, {source}')


def _is_tuned(args: Args[Any]) -> bool:
    """Tell whether a tuning plugin has saved the MTU that it replaced."""
    from plugins.tuning.saved import SavedFile, decoded

    content = SavedFile("", args.container_id, args.ifname).read()
    return content is not None and decoded(content, args.log).mtu != 0


def _masquerades(driver: Driver[Any]) -> bool:
    return isinstance(driver.config, MasqueradeConfig) and driver.config.ip_masq


def _release(args: Args[Any], *, through_pod: bool) -> None:
    """Call the IPAM plugin's DEL at its time: before the links go, if it tells a server through the pod's interface."""
    if (args.config.ipam.type in _SPEAK_THROUGH_POD) == through_pod:
        _with_ipam(args, ipam_delete)


def _with_ipam(args: Args[Any], call: Callable[[Args[Any]], None]) -> None:
    """Call the IPAM plugin, if there is one. A step of its own: reading `ipam.type` may raise its decoding error."""
    if args.config.ipam.type:
        call(args)
