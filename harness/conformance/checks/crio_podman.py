"""The requests of CRI-O and Podman (by way of ocicni) that the specification does not mention."""

import copy
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from harness.conformance.catalogue import check
from harness.conformance.engine import expect
from harness.conformance.engine.requests import ABSENT
from harness.conformance.engine.sequences import (
    BARE_PATH,
    VERSION_SINCE,
    addresses,
    as_before,
    declared,
    pod_mac,
    refuses,
    round_trip,
    round_trip_rewritten,
    spare_addresses,
)
from harness.conformance.engine.trial import Trial
from harness.conformance.finding import NotApplicableError, SlowError, ViolationError
from harness.conformance.subject import GIVING_ADDRESSES, Profile
from harness.libcni.execute import inherited
from harness.overload import overload
from skel.versions import VERB_SINCE

_DUMMY: Final = dict.fromkeys(("CNI_IFNAME", "CNI_NETNS", "CNI_PATH"), "dummy")
_STORM: Final = 16
_STORM_SECONDS: Final = 10.0
_NULL_LISTS: Final = dict.fromkeys(("cni.dev/valid-attachments", "cni.dev/attachments"))
_MAC: Final = "02:c5:1e:aa:bb:01"


@check("crio-version", "habit-version-dummy", since=VERSION_SINCE)
def crio_version(trial: Trial) -> None:
    """VERSION comes with "dummy" as interface, namespace and path, and uses none of them."""
    ordinary = expect.document(expect.succeeded(trial.ask_version()), "a version object")
    dummy = expect.succeeded(trial.ask_version(environ=_DUMMY), 'VERSION with "dummy" in its variables')
    said = expect.document(dummy, "a version object")
    if said != ordinary:
        raise ViolationError(f"the same answer as without them: {json.dumps(ordinary)}", json.dumps(said), dummy)


@check(
    "crio-check-after-every-add", "habit-check-after-add", "check-after-add", since=VERB_SINCE["CHECK"], attachments=2
)
def crio_check_after_every_add(trial: Trial) -> None:
    """CHECK comes right after every ADD, also for the pods before that, and succeeds."""
    other = trial.new_container()
    for container in (trial.container, other):
        trial.attach(container)
        expect.succeeded(trial.check(container), "CHECK right after ADD")
    expect.succeeded(trial.check(trial.container), "CHECK after another pod was added")


@check("crio-no-runtime-config", "habit-no-runtime-config", "habit-null-lists")
def crio_no_runtime_config(trial: Trial) -> None:
    """A plugin whose capabilities are declared is called without runtimeConfig, or with one that is null or empty."""
    if not trial.subject.plugin.capabilities:
        raise NotApplicableError("the configuration declares no capability")
    for said, value in (("without", ABSENT), ("with a null", None), ("with an empty", {})):
        round_trip(trial, f"{said} runtimeConfig", config={"runtimeConfig": value})


@check("crio-gc-at-start", "habit-gc-null", since=VERB_SINCE["GC"])
def crio_gc_at_start(trial: Trial) -> None:
    """GC comes before any pod, with both lists of attachments null, and changes nothing."""
    with trial.unchanged("after GC before any pod"):
        expect.succeeded(trial.gc(config=_NULL_LISTS), "GC with both lists null")


@check("crio-gc-of-nothing", "habit-gc-both-spellings", since=VERB_SINCE["GC"], attachments=2)
def crio_gc_of_nothing(trial: Trial) -> None:
    """GC comes with all attachments that exist, under both spellings of the key, and removes none of them."""
    containers = [trial.container, trial.new_container()]
    for container in containers:
        trial.attach(container)
    with trial.unchanged("after GC with every attachment that there is", *containers):
        expect.succeeded(trial.gc(*containers), "GC with every attachment that there is")


@check("crio-large-burst", "habit-large-numbers")
def crio_large_burst(trial: Trial) -> None:
    """Rates and bursts beyond 32 bits are accepted."""
    declared(trial, "bandwidth")
    large = {"ingressRate": 10_000_000_000, "ingressBurst": 34_359_738_359}
    round_trip(trial, "with a rate and a burst beyond 32 bits", config={"runtimeConfig": {"bandwidth": large}})


@check("podman-version-storm", "habit-version-storm", since=VERSION_SINCE)
def podman_version_storm(trial: Trial) -> None:
    """VERSION is answered many times at once, each within seconds and with the same, and changes nothing."""
    with trial.unchanged("after VERSION"):
        with ThreadPoolExecutor(_STORM) as pool:
            executions = list(pool.map(lambda _: trial.ask_version(environ=_DUMMY), range(_STORM)))
        answers = {json.dumps(expect.document(expect.succeeded(each)), sort_keys=True) for each in executions}
        if len(answers) > 1:
            raise ViolationError("the same answer every time", "; ".join(sorted(answers)))
        slowest = max(executions, key=lambda each: each.seconds)
        if slowest.seconds > _STORM_SECONDS * overload():
            expected = f"{_STORM} answers at once, each within {_STORM_SECONDS:.0f} s"
            raise SlowError(expected, f"one after {slowest.seconds:.1f} s", slowest)


@check("podman-prev-result", "habit-prev-result-ip-version", "skel-unknown-keys")
def podman_prev_result(trial: Trial) -> None:
    """The prevResult has a "version" in each of its ips and an empty dns, whatever its own version."""
    round_trip_rewritten(trial, _as_podman, "Podman's prevResult")


@check("podman-fixed-address", "habit-args-ip-mac", profiles=GIVING_ADDRESSES, attachments=2)
def podman_fixed_address(trial: Trial) -> None:
    """A fixed address and a fixed hardware address, asked for in CNI_ARGS together, are given."""
    trial.warm_up()
    reads_ip, reads_mac = (refuses(trial, environ=_args(f"{key}=neither")) for key in ("IP", "MAC"))
    if not reads_ip and not reads_mac:
        raise NotApplicableError("the plugin reads neither IP nor MAC in CNI_ARGS: it accepts any value")
    wanted = str(spare_addresses(trial)[0].ip)
    result = expect.result(trial.add(environ=_args(f"IP={wanted};MAC={_MAC}")), trial.version)
    if reads_ip and wanted not in addresses(result):
        raise ViolationError(f"the address {wanted}, which was asked for", f"{addresses(result)}")
    if reads_mac and trial.subject.profile is Profile.INTERFACE and (mac := pod_mac(trial)) != _MAC:
        raise ViolationError(f"an interface with the hardware address {_MAC}, which was asked for", mac)


@check("podman-reload", "habit-ips-without-prefix", profiles=GIVING_ADDRESSES, attachments=2)
def podman_reload(trial: Trial) -> None:
    """An address that runtimeConfig asks for without a prefix length is given, or refused for this reason."""
    declared(trial, "ips")
    wanted = str(spare_addresses(trial)[0].ip)
    added = trial.add(config={"runtimeConfig": {"ips": [wanted]}})
    if added.exit_code != 0:
        expect.refused(added, "the address has no prefix length")
        raise NotApplicableError("the plugin wants a prefix length, as it may")
    given = addresses(expect.result(added, trial.version))
    if wanted not in given:
        raise ViolationError(f"the address {wanted}, which was asked for", f"{given}", added)


@check("podman-clean-up", "habit-del-bare-environment", "habit-bare-environment")
def podman_clean_up(trial: Trial) -> None:
    """DEL comes from a clean-up process with almost no environment, and cleans up all the same."""
    with as_before(trial, "after DEL with a bare environment"):
        trial.attach()
        bare: dict[str, object] = {**dict.fromkeys(inherited(), ABSENT), "PATH": BARE_PATH}
        expect.succeeded(trial.delete(environ=bare), "DEL with a bare environment")


def _args(pairs: str) -> dict[str, object]:
    return {"CNI_ARGS": f"IgnoreUnknown=1;{pairs}"}


def _as_podman(document: object) -> object:
    said: Any = copy.deepcopy(document)
    if isinstance(said, dict):
        for each in said.get("ips") or []:
            each["version"] = "6" if ":" in each.get("address", "") else "4"
        said["dns"] = {}
    return said
