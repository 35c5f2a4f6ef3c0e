"""firewall: lets a pod's traffic pass the node's firewall, and restricts traffic between pods.

It follows an interface plugin in a list and returns that plugin's result. It changes nothing in the pod.
"""

from fast_stdlib.typing import TYPE_CHECKING
from plugins.attach.attachment import firewall_of, owner_of, required_result, valid_owners
from skel import (
    Args,
    CniError,
    Code,
    Config,
    Plugin,
    Result,
    Undo,
    choice,
    expected,
    field,
    interface_name,
    optional,
    string,
)
from skel.steps import Steps
from skel.versions import REFERENCE_RELEASE

if TYPE_CHECKING:
    from firewall.admission_table import Admission, Ingress

_OPEN = "open"
_CHAIN_MAX = 28
"""Bytes in the name of a chain of iptables."""


def _chain_name(value: object, path: str) -> str:
    """Read the name of a chain of iptables; "" is absent."""
    name = string(value, path)
    is_plain = name.isascii() and name.isprintable() and not any(character in name for character in " \"'\\")
    if len(name) > _CHAIN_MAX or not is_plain or name.startswith(("-", "!")):
        raise expected(f"the name of a chain of iptables, of at most {_CHAIN_MAX} characters", value, path)
    return name


class FirewallConfig(Config):
    """Keys of the reference plugin, with its defaults; its backends and `nftables`."""

    backend: str | None = field(optional(choice("nftables", "iptables", "firewalld")), default=None)
    iptables_admin_chain_name: str = field(_chain_name, default="")
    firewalld_zone: str = field(string, default="")
    ingress_policy: str | None = field(optional(choice(_OPEN, "same-bridge", "isolated")), default=None)


def add(args: Args[FirewallConfig]) -> Result:
    """Admit the addresses of prevResult. Raises CniError (7), OSError."""
    from firewall import admission

    result = required_result(args)
    asked = _admission(args)
    tables, owner = firewall_of(args), owner_of(args)
    with Undo(args.log, args.interruption) as undo:
        undo.add(admission.remove, tables, owner, asked)
        admission.apply(tables, owner, asked)
    return result


def delete(args: Args[FirewallConfig]) -> None:
    """Remove the admission, of any backend and suite; it needs neither prevResult nor the pod's network namespace."""
    from firewall import admission

    admission.remove(firewall_of(args), owner_of(args), _admission(args))


def check(args: Args[FirewallConfig]) -> None:
    """Raise CniError (999) that names the missing parts of the admission; also 7, OSError."""
    from firewall import admission

    required_result(args)
    lacks = admission.missing(firewall_of(args), owner_of(args), _admission(args))
    if lacks:
        raise CniError(Code.INTERNAL, "; ".join(lacks))


def gc(args: Args[FirewallConfig]) -> None:
    """Remove the admission of attachments of the network that are not valid; go on past errors."""
    from firewall import admission

    valid = valid_owners(args)
    if valid is None:
        return
    with Steps() as steps:
        steps.take(lambda: admission.collect(firewall_of(args), args.config.name, valid, _admission(args)))


def status(args: Args[FirewallConfig]) -> None:
    """Raise CniError (50) if the backend cannot admit a pod now."""
    from firewall import admission

    try:
        lack = admission.lack(firewall_of(args), _admission(args))
    except OSError as error:
        lack = error.strerror or str(error)
    if lack:
        raise CniError(Code.NOT_AVAILABLE, lack)


def repair(args: Args[FirewallConfig]) -> None:
    """Put back the missing parts of the admission, in the form of the suite that made the attachment."""
    from firewall import admission
    from plugins.attach.host_veth import is_of_reference

    required_result(args)
    tables, owner, asked = firewall_of(args), owner_of(args), _admission(args)
    admission.apply(tables, owner, asked, as_reference=is_of_reference(args))


def _admission(args: Args[FirewallConfig]) -> "Admission":
    """Return the admission of the addresses in prevResult, as configured. Raises CniError (7)."""
    from firewall.admission_table import ADMIN_CHAIN, ZONE, Admission

    config = args.config
    return Admission(
        # All of them, as with the reference.
        addresses=[ip.address for ip in args.prev_result.ips] if args.prev_result else [],
        ingress=_ingress(args),
        backend=config.backend,
        admin_chain=config.iptables_admin_chain_name or ADMIN_CHAIN,
        zone=config.firewalld_zone or ZONE,
    )


def _ingress(args: Args[FirewallConfig]) -> "Ingress | None":
    """Return the ingress policy, and the bridge and the port that prevResult names. Raises CniError (7)."""
    from firewall.admission_table import Ingress

    policy = args.config.ingress_policy
    if policy is None or policy == _OPEN or args.prev_result is None:
        return None
    host = [interface.name for interface in args.prev_result.interfaces if not interface.sandbox]
    if not host:
        if args.verb == "DEL":
            return None
        message = f'ingressPolicy: "{policy}" needs a plugin before it that reports the bridge, such as bridge'
        raise CniError(Code.INVALID_CONFIG, message)
    return Ingress(policy, interface_name(host[0], "prevResult.interfaces"), host[1] if len(host) > 1 else "")


PLUGIN = Plugin(
    "firewall",
    config=FirewallConfig,
    add=add,
    delete=delete,
    check=check,
    gc=gc,
    status=status,
    repair=repair,
    version=REFERENCE_RELEASE,
)
