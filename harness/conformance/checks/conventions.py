"""CONVENTIONS.md: the requests of runtimes in runtimeConfig, in args and in CNI_ARGS."""

from collections.abc import Callable
from typing import Final

from harness.conformance.catalogue import check
from harness.conformance.engine import expect
from harness.conformance.engine.kernel import Address
from harness.conformance.engine.requests import Changes
from harness.conformance.engine.sequences import addresses, declared, pod_mac, refuses, round_trip, spare_addresses
from harness.conformance.engine.trial import Trial
from harness.conformance.finding import NotApplicableError, ViolationError
from harness.conformance.subject import GIVING_ADDRESSES, IN_POD, Profile
from skel.versions import at_least

_MAC: Final = "02:c5:1e:aa:bb:02"
_NOWHERE_ELSE: Final = "198.51.100.0/24"
"""A range of the documentation (RFC 5737)."""
_NETWORK: Final = "198.51.100."
_DNS: Final = {"servers": ["192.0.2.53"], "searches": ["example.org"], "options": ["ndots:5"]}
_OF_INTERFACES: Final = {"mac", "portMappings", "bandwidth", "dns"}
"""The capabilities that are for an interface plugin, in the configuration that its IPAM plugin has, too."""
_MALFORMED: Final[dict[str, object]] = {
    "portMappings": [{"hostPort": "no port", "containerPort": 80, "protocol": "tcp"}],
    "bandwidth": {"ingressRate": "no rate", "ingressBurst": 8000},
    "ipRanges": [[{"subnet": "no subnet"}]],
    "ips": ["no address"],
    "mac": "no address",
    "dns": {"servers": "no list"},
}


@check("args-passed-over", "convention-args-ignored")
def args_passed_over(trial: Trial) -> None:
    """Unknown keys in args are ignored."""
    labels, unknown = {"labels": [{"key": "app", "value": "web"}]}, {"org.example": {"any": [1]}}
    round_trip(trial, "with labels in args", config={"args": {"cni": labels} | unknown})
    round_trip(trial, "with args that lack cni", config={"args": unknown})


@check("args-ips", "convention-args-ips", profiles=GIVING_ADDRESSES, attachments=2)
def args_ips(trial: Trial) -> None:
    """A plugin that reads the ips in args gives those."""
    _demand_read(trial, "the ips in args", _ips_in_args)
    _demand_given(trial, spare_addresses(trial)[0], _ips_in_args)


@check("cni-args-ip", "convention-cni-args-ip", profiles=GIVING_ADDRESSES, attachments=2)
def cni_args_ip(trial: Trial) -> None:
    """A plugin that reads IP in CNI_ARGS gives that address."""
    _demand_read(trial, "IP in CNI_ARGS", _ip_in_cni_args)
    _demand_given(trial, spare_addresses(trial)[0], _ip_in_cni_args)


@check("args-over-cni-args", "convention-args-over-cni-args", profiles=GIVING_ADDRESSES, attachments=3)
def args_over_cni_args(trial: Trial) -> None:
    """If args ask for an address, the one in CNI_ARGS is ignored."""
    _demand_read(trial, "the ips in args", _ips_in_args)
    _demand_read(trial, "IP in CNI_ARGS", _ip_in_cni_args)
    wanted, ignored = spare_addresses(trial, 2)
    try:
        _demand_given(trial, wanted, lambda each: {**_ips_in_args(each), **_ip_in_cni_args(str(ignored.ip))})
    except ViolationError:
        if trial.subject.profile is Profile.INTERFACE and trial.subject.plugin.raw.get("ipam"):
            raise NotApplicableError("the IPAM plugin chooses the addresses, and is examined itself") from None
        raise


@check("capability-ips", "convention-ips", profiles=GIVING_ADDRESSES, attachments=2)
def capability_ips(trial: Trial) -> None:
    """With the capability "ips", the addresses that the runtime asks for are given."""
    declared(trial, "ips")
    _demand_given(trial, spare_addresses(trial)[0], lambda wanted: {"config": {"runtimeConfig": {"ips": [wanted]}}})


@check("capability-ip-ranges", "convention-ip-ranges", profiles={Profile.IPAM}, since="0.3.0")
def capability_ip_ranges(trial: Trial) -> None:
    """With the capability "ipRanges", an address is given of a range that the runtime names.

    An interface plugin may depend on the range's gateway, which may be of another range. Before 0.3.0 a result has room
    for one address of a family, and the configuration's own ranges take it.
    """
    declared(trial, "ipRanges")
    added = trial.add(config={"runtimeConfig": {"ipRanges": [[{"subnet": _NOWHERE_ELSE}]]}})
    given = addresses(expect.result(added, trial.version))
    if not any(each.startswith(_NETWORK) for each in given):
        raise ViolationError(f"an address in {_NOWHERE_ELSE}, the range that the runtime names", f"{given}", added)


@check("capability-mac", "convention-mac", profiles=IN_POD)
def capability_mac(trial: Trial) -> None:
    """With the capability "mac", the interface gets the hardware address that the runtime asks for."""
    declared(trial, "mac")
    result = expect.result(trial.add(config={"runtimeConfig": {"mac": _MAC}}), trial.version)
    if (mac := pod_mac(trial)) != _MAC:
        raise ViolationError(f"an interface with the hardware address {_MAC}, which was asked for", mac or "none")
    if not at_least(trial.version, "0.3.0"):  # an older result has no interfaces
        return
    told = [each.mac.lower() for each in result.interfaces if each.sandbox and each.name == trial.container.ifname]
    if told != [_MAC]:
        raise ViolationError(f"a result that has {trial.container.ifname} with the mac {_MAC}", f"{told}")


@check("capability-dns", "convention-dns", profiles=IN_POD)
def capability_dns(trial: Trial) -> None:
    """With the capability "dns", the result has the servers and the searches that the runtime names."""
    declared(trial, "dns")
    result = expect.result(trial.add(config={"runtimeConfig": {"dns": _DNS}}), trial.version)
    told = (list(result.dns.nameservers), list(result.dns.search))
    if told != (_DNS["servers"], _DNS["searches"]):
        raise ViolationError(f"dns with {_DNS}, as the runtime has it", f"{told}")


@check("capability-malformed", "convention-malformed-field")
def capability_malformed(trial: Trial) -> None:
    """A value in runtimeConfig that is malformed is an error, and that ADD leaves nothing."""
    not_its_own = _OF_INTERFACES if trial.subject.profile is Profile.IPAM else set()
    known = sorted(trial.subject.plugin.capabilities & _MALFORMED.keys() - not_its_own)
    if not known:
        raise NotApplicableError("the configuration declares no capability whose form is known")
    for capability in known:
        value = {capability: _MALFORMED[capability]}
        expect.refused(trial.add(config={"runtimeConfig": value}), f"{value} in runtimeConfig is malformed")
        expect.succeeded(trial.delete(), "DEL after an ADD that failed")


@check("ignore-unknown", "skel-ignore-unknown")
def ignore_unknown(trial: Trial) -> None:
    """With IgnoreUnknown, 1 or "true" in any case, unknown pairs of CNI_ARGS are ignored."""
    for said in ("1", "true", "TRUE"):
        round_trip(trial, f"with IgnoreUnknown={said}", environ={"CNI_ARGS": f"IgnoreUnknown={said};COLOUR=blue"})


def _ips_in_args(asked: str) -> Changes:
    return {"config": {"args": {"cni": {"ips": [asked]}}}}


def _ip_in_cni_args(asked: str) -> Changes:
    return {"environ": {"CNI_ARGS": f"IgnoreUnknown=1;IP={asked}"}}


def _demand_read(trial: Trial, what: str, ask: Callable[[str], Changes]) -> None:
    """Raise NotApplicableError for a plugin that accepts a malformed value: it does not read the key."""
    trial.warm_up()
    if not refuses(trial, **ask("no address")):
        raise NotApplicableError(f"the plugin does not read {what}: it accepts any value")


def _demand_given(trial: Trial, wanted: Address, ask: Callable[[str], Changes]) -> None:
    """Demand that an ADD that asks for an address gives it; the plugin may want the prefix length, too."""
    added = trial.add(**ask(str(wanted.ip)))
    if added.exit_code != 0:
        expect.succeeded(trial.delete(), "DEL after an ADD that failed")
        added = trial.add(**ask(str(wanted)))
    given = addresses(expect.result(added, trial.version))
    if str(wanted.ip) not in given:
        raise ViolationError(f"the address {wanted.ip}, which was asked for", f"{given}", added)
