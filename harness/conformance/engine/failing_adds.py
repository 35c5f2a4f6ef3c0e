"""ADDs that fail late: for want of addresses, or at a route that no kernel accepts.

The former need an IPAM configuration in the form of host-local, which others took over: `subnet`, or `ranges`.
"""

import copy
import ipaddress
import json
from collections.abc import Mapping
from typing import Any, Final

from harness.conformance.engine.delegates import Delegate, DelegateAnswer, recording
from harness.conformance.engine.requests import TrialContainer, json_object
from harness.conformance.engine.sequences import clean_up
from harness.conformance.engine.trial import Trial
from harness.conformance.finding import NotApplicableError

ADDRESS_COUNT: Final = 2
"""The number of attachments that get an address."""
_ENOUGH: Final = 16
"""Addresses that a subnet must have, so that two remain beside the network's own and the gateway."""
_FIRST: Final = 9
"""The place of the first of them in its subnet: behind the gateways and servers that subnets often begin with."""
_OF_A_RANGE: Final = frozenset({"subnet", "gateway", "rangeStart", "rangeEnd", "ranges"})
_UNREACHABLE = {"dst": "203.0.113.0/24", "gw": "198.51.100.77"}


def with_two_addresses(ipam: object) -> dict[str, object]:
    """Return the IPAM configuration with two addresses in each of its range sets. Raises NotApplicableError."""
    if not isinstance(ipam, dict) or not ("subnet" in ipam or "ranges" in ipam):
        raise NotApplicableError("the IPAM configuration has no form that is known: neither subnet nor ranges")
    narrow = copy.deepcopy(ipam)
    if "ranges" in narrow:
        narrow["ranges"] = [[_narrow(_first_range(range_set))] for range_set in _listed(narrow["ranges"])]
    if "subnet" in narrow:
        narrow |= _narrow(narrow)
    return narrow


def with_unequal_ranges(ipam: object) -> dict[str, object]:
    """Return one that gives two addresses at once; one range is used up before the other. Raises NotApplicableError."""
    narrow = with_two_addresses(ipam)
    span = _first_range(_listed(narrow["ranges"])[0]) if "ranges" in narrow else narrow
    gateway = {"gateway": span["gateway"]} if "gateway" in span else {}
    end = ipaddress.ip_address(str(span["rangeEnd"])) + 1
    if str(end) == gateway.get("gateway"):
        end += 1
    first = {"subnet": span["subnet"], "rangeStart": span["rangeStart"], "rangeEnd": span["rangeEnd"], **gateway}
    second = {"subnet": span["subnet"], "rangeStart": str(end), "rangeEnd": str(end), **gateway}
    others = {key: value for key, value in narrow.items() if key not in _OF_A_RANGE}
    return {**others, "ranges": [[first], [second]]}


def exhaust_addresses(trial: Trial) -> tuple[Mapping[str, object], list[TrialContainer]]:
    """Use up all addresses, until an ADD fails; return the configuration's keys, and the containers with addresses.

    Raises NotApplicableError if no ADD fails for want of an address, or one fails earlier.
    """
    config = {"ipam": with_two_addresses(trial.subject.plugin.raw.get("ipam"))}
    served: list[TrialContainer] = []
    for _ in range(ADDRESS_COUNT):
        served.append(trial.new_container())
        if trial.add(served[-1], config=config).exit_code != 0:
            raise NotApplicableError(f"a configuration with {ADDRESS_COUNT} addresses is not accepted")
    if trial.add(config=config).exit_code == 0:
        raise NotApplicableError("rangeStart and rangeEnd do not make the addresses few: one more ADD succeeds")
    return config, served


def _narrow(span: dict[str, object]) -> dict[str, object]:
    try:
        subnet = ipaddress.ip_network(str(span.get("subnet")), strict=False)
    except ValueError as error:
        raise NotApplicableError(f"a subnet that is none: {error}") from None
    if subnet.num_addresses < _ENOUGH:
        raise NotApplicableError(f"the subnet {subnet} is small enough as it is")
    gateway = str(span.get("gateway", ""))
    first = _FIRST if gateway not in {str(subnet[_FIRST]), str(subnet[_FIRST + 1])} else _FIRST + ADDRESS_COUNT
    return {**span, "rangeStart": str(subnet[first]), "rangeEnd": str(subnet[first + ADDRESS_COUNT - 1])}


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _first_range(range_set: object) -> dict[str, object]:
    spans = _listed(range_set)
    if not spans or not isinstance(spans[0], dict):
        raise NotApplicableError("the ranges of the IPAM configuration are no lists of objects")
    return spans[0]


def fail_at_route(trial: Trial) -> Delegate:
    """Have the ADD of the trial's container fail once the interface has its addresses; the delegate stays for DEL.

    Raises NotApplicableError if the plugin has no delegate, or ignores the routes of its delegate.
    """
    delegate = recording(trial, named=True)
    other = trial.new_container()
    trial.add(other, environ=delegate.environ)
    clean_up(trial, other)
    records = delegate.records("ADD")
    said: Any = json_object(records[-1].stdout) if records else None
    if not said or not said.get("ips"):
        raise NotApplicableError("no address of a delegate to go by")
    said["routes"] = [*(said.get("routes") or []), _UNREACHABLE]
    delegate.answer("ADD", DelegateAnswer(json.dumps(said), 0, after_real=True))
    failed = trial.add(environ=delegate.environ)
    if failed.exit_code == 0:
        raise NotApplicableError("a route to an unreachable gateway is no obstacle to the plugin")
    delegate.answer("ADD", None)
    return delegate
