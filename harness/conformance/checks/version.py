"""VERSION, and its truth: the versions of the specification that a plugin says it supports."""

import json
import re
from collections.abc import Sequence
from typing import Final

from harness.conformance.catalogue import check
from harness.conformance.engine import expect
from harness.conformance.engine.requests import ABSENT, CLOSED_STDIN
from harness.conformance.engine.sequences import VERSION_SINCE
from harness.conformance.engine.trial import Trial
from harness.conformance.finding import NotApplicableError, PredecessorError, ViolationError
from harness.conformance.subject import Profile
from harness.libcni.execute import Execution
from skel.errors import Code
from skel.result import Result
from skel.versions import SUPPORTED, VERB_SINCE, at_least

_FUTURE: Final = "99.0.0"
"""A version that no plugin supports."""
_CHAINS_SINCE: Final = "0.3.0"


@check(
    "version-result",
    "version-keys",
    "version-supported-versions",
    "version-keys-restated",
    "version-result",
    "result-output",
)
def version_result(trial: Trial) -> None:
    """VERSION prints one JSON object with cniVersion and a list of supportedVersions."""
    _supported(trial.ask_version())


@check("version-repeats-cni-version", "version-cni-version")
def version_repeats(trial: Trial) -> None:
    """VERSION answers with the cniVersion of its input."""
    for version in _known(trial):
        answer = trial.ask_version(version=version)
        said = expect.document(expect.succeeded(answer)).get("cniVersion")
        if said != version:
            raise ViolationError(f'"cniVersion": "{version}", as on input', f'"cniVersion": {json.dumps(said)}', answer)


@check("version-needs-nothing", "skel-version-alone", since=VERSION_SINCE)
def version_needs_nothing(trial: Trial) -> None:
    """VERSION needs no variable but CNI_COMMAND, and no configuration."""
    others = ("CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_ARGS", "CNI_PATH")
    environ = dict.fromkeys(others, ABSENT)
    _supported(trial.ask_version(environ=environ))
    _supported(trial.ask_version(environ=environ, stdin=b""))
    closed = trial.ask_version(environ=environ, wrapper=CLOSED_STDIN)
    if closed.timed_out:
        raise ViolationError("VERSION without a standard input", expect.ending(closed), closed, follows="stdin-closed")
    _supported(closed)


@check("version-supported-works", "supported-versions-true", "add-result-version", "add-result-keys")
def version_supported_works(trial: Trial) -> None:
    """ADD and DEL work with every version that VERSION names, and the result has the shape of that version."""
    tried = []
    reason = "its versions know of no chains"
    for version in _known(trial):
        if trial.subject.profile is Profile.CHAINED and not at_least(version, _CHAINS_SINCE):
            continue
        trial.version = version
        container = trial.new_container()
        try:
            trial.prepare(container)
        except PredecessorError as error:
            reason = str(error)  # it may not support this version
            continue
        execution = trial.add(container)
        _demand_shape(execution, expect.result(execution, version), version)
        trial.detach(container)
        tried.append(version)
    if not tried:
        raise NotApplicableError(reason)


@check("version-names-version-in-use", "supported-versions-true", "version-supported-versions")
def version_names_version_in_use(trial: Trial) -> None:
    """VERSION names the cniVersion of the network, if ADD succeeds with it."""
    asked = trial.ask_version()
    named = _supported(asked)
    if trial.version not in named and trial.add().exit_code == 0:
        expected = f'"{trial.version}" among the supportedVersions, since ADD succeeds with it'
        raise ViolationError(expected, ", ".join(named), asked)


@check("version-unsupported", "error-incompatible-version", "exit-code", "supported-versions-true")
def version_unsupported(trial: Trial) -> None:
    """ADD fails if the configuration is of a version that is not supported."""
    expect.failed(trial.add(version=_FUTURE), f"version {_FUTURE} of the specification is not supported")


@check("version-unsupported-code", "skel-incompatible-version")
def version_unsupported_code(trial: Trial) -> None:
    """ADD with a version that is not supported is refused with code 1, and without any effect."""
    trial.prepare(trial.container)
    with trial.unchanged("after an ADD that was refused for its version"):
        execution = trial.add(version=_FUTURE)
        codes = [Code.INCOMPATIBLE_VERSION]
        why = f"version {_FUTURE} of the specification is not supported"
        expect.failed(execution, why, follows="version-unsupported")
        expect.refused(execution, why, codes=codes)


@check("verb-before-its-version", "skel-check-since", "skel-gc-since", "skel-status-since", since=VERB_SINCE["CHECK"])
def verb_before_its_version(trial: Trial) -> None:
    """A verb is refused with code 1 if the configuration is of a version from before the verb."""
    known = _known(trial)
    tried = False
    for verb, since in VERB_SINCE.items():
        earlier = [version for version in known if not at_least(version, since)]
        if since not in known or not earlier:
            continue
        tried, version = True, earlier[-1]
        container = trial.container if verb == "CHECK" else None
        execution = trial.call(verb, container, version=version)
        why = f"{verb} came with version {since}, and the configuration is of {version}"
        expect.refused(execution, why, codes=[Code.INCOMPATIBLE_VERSION])
    if not tried:
        raise NotApplicableError("it supports no version with a verb that an earlier one of its versions has not")


@check("verbs-of-its-versions", "skel-verbs-not-implemented", since=VERB_SINCE["CHECK"])
def verbs_of_its_versions(trial: Trial) -> None:
    """A verb that the version of the configuration has succeeds, also if it has nothing to do."""
    trial.attach()
    expect.succeeded(trial.check())
    if trial.has("GC"):
        expect.succeeded(trial.gc(trial.container))
        expect.succeeded(trial.status())


@check("about", "skel-about")
def about(trial: Trial) -> None:
    """Without CNI_COMMAND the plugin describes itself on stderr, prints nothing on stdout and exits with 0."""
    others = ("CNI_COMMAND", "CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_ARGS")
    execution = trial.ask_version(environ=dict.fromkeys(others, ABSENT), stdin=b"")
    expect.succeeded(execution, "a call without CNI_COMMAND, as by hand,")
    expect.silent(execution)
    if not re.search(rb"\d\.\d", execution.stderr):
        said = execution.stderr.decode(errors="replace").strip() or "nothing"
        raise ViolationError("what it is and which versions it supports on stderr", said, execution)


def _supported(execution: Execution) -> Sequence[str]:
    """Demand an answer to VERSION, and return the versions that it names."""
    said = expect.document(expect.succeeded(execution), "a version object on standard output")
    if not isinstance(said.get("cniVersion"), str) or not said["cniVersion"]:
        raise ViolationError("a version as cniVersion", json.dumps(said.get("cniVersion")), execution)
    versions = said.get("supportedVersions")
    if not isinstance(versions, list) or not versions or not all(isinstance(each, str) for each in versions):
        raise ViolationError("a list of versions as supportedVersions", json.dumps(versions), execution)
    unlike = [each for each in versions if not re.fullmatch(r"\d+\.\d+\.\d+.*", each)]
    if unlike:
        raise ViolationError("versions such as 1.1.0 in supportedVersions", json.dumps(unlike), execution)
    return versions


def _known(trial: Trial) -> Sequence[str]:
    """Return those of the supported versions that the suite knows."""
    supported = _supported(trial.ask_version())
    return [version for version in SUPPORTED if version in supported]


def _demand_shape(execution: Execution, result: Result, version: str) -> None:
    said = expect.document(execution)
    keys = {key for key, value in said.items() if value is not None}
    foreign = {"ip4", "ip6"} if at_least(version, "0.3.0") else {"interfaces", "ips", "routes"}
    if keys & foreign:
        named = ", ".join(sorted(keys & foreign))
        raise ViolationError(f"a result as version {version} has it", f"one with {named}", execution)
    if not at_least(version, "0.3.0") or at_least(version, "1.0.0"):
        return
    for ip, written in zip(result.ips, expect.any_case(said).get("ips", ()), strict=True):
        family, told = str(ip.address.version), expect.any_case(written).get("version")
        if told != family:
            expected = f'"version": "{family}" beside the address {ip.address}, as version {version} has it'
            raise ViolationError(expected, f'"version": {json.dumps(told)}', execution)
