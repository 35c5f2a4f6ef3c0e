"""The variables of a request: missing ones, and invalid ones."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from harness.conformance.catalogue import check
from harness.conformance.engine import expect
from harness.conformance.engine.kernel import links
from harness.conformance.engine.requests import ABSENT
from harness.conformance.engine.sequences import attach_unusual
from harness.conformance.engine.trial import Trial
from harness.conformance.finding import NotApplicableError, ViolationError
from harness.conformance.subject import Profile
from harness.libcni.execute import Execution
from skel.errors import Code
from skel.versions import at_least

_ID: Final = "CNI_CONTAINERID"
_NEEDED: Final[Mapping[str, Sequence[str]]] = {
    "ADD": (_ID, "CNI_NETNS", "CNI_IFNAME"),
    "CHECK": (_ID, "CNI_NETNS", "CNI_IFNAME"),
    "DEL": (_ID, "CNI_IFNAME"),
}

_ID_NEEDED_SINCE: Final = "0.4.0"
"""Before, a container ID was recommended only."""
_ID_CHARACTERS_SINCE: Final = "1.0.0"
"""Before, no version said which characters a container ID has."""
_CONTAINER_IDS: Final = ("-pod", "_pod", "../pod", "a/b", "a b", "a:b", "a;b", "pod\n")
_IFNAMES: Final = ("sixteen-letters-", ".", "..", "a/b", "a:b", "a b", "eth0\n")
_LONGEST_IFNAME: Final = "fifteen-letters"


def _bad_environment(trial: Trial) -> Sequence[int]:
    return expect.codes_of(trial.version, Code.INVALID_ENVIRONMENT)


@check("variable-missing", "skel-required-variables")
def variable_missing(trial: Trial) -> None:
    """A verb without a variable that it needs is refused with code 4."""
    for verb, name, execution in _each_missing(trial):
        expect.refused(execution, f"{verb} needs {name}", codes=_bad_environment(trial))


@check("variable-named", "error-invalid-environment")
def variable_named(trial: Trial) -> None:
    """An error of code 4 names the variable that is missing or invalid."""
    seen = False
    for verb, name, execution in _each_missing(trial):
        seen = _demand_named(execution, name, f"{verb} needs {name}") or seen
    invalid = {_ID: _CONTAINER_IDS[0], "CNI_IFNAME": _IFNAMES[0], "CNI_COMMAND": "RENAME"}
    for name, value in invalid.items():
        execution = trial.call("DEL", trial.container, environ={name: value})
        seen = _demand_named(execution, name, f'{name} is "{value}"') or seen
    if not seen:
        raise NotApplicableError("it gives no error of code 4")


@check("variables-all-named", "skel-missing-variables", "error-invalid-environment")
def variables_all_named(trial: Trial) -> None:
    """One error names all variables that are missing."""
    for verb, names in _verbs(trial):
        execution = trial.call(verb, trial.container, environ=dict.fromkeys(names, ABSENT))
        why = f"{verb} needs {', '.join(names)}, and all of them are missing"
        expect.refused(execution, why, codes=_bad_environment(trial), naming=names)


@check("container-id-invalid", "container-id-characters", "exit-code")
def container_id_invalid(trial: Trial) -> None:
    """ADD fails if the container ID is empty, does not start with a letter or digit, or has forbidden characters."""
    for container_id in ("", *(_CONTAINER_IDS if at_least(trial.version, _ID_CHARACTERS_SINCE) else ())):
        execution = trial.add(environ={_ID: container_id})
        expect.failed(execution, f"{container_id!r} is no container ID")


@check("container-id-invalid-code", "skel-container-id")
def container_id_invalid_code(trial: Trial) -> None:
    """ADD and DEL with a container ID that is no possible file name are refused with code 4, and without any effect."""
    trial.prepare(trial.container)
    with trial.unchanged("after ADDs and DELs that were refused for their container IDs"):
        for container_id in (*_CONTAINER_IDS, "päd"):
            for verb in ("ADD", "DEL"):
                execution = trial.call(verb, trial.container, environ={_ID: container_id})
                why = f"{container_id!r} is no container ID"
                if execution.exit_code == 0 and not at_least(trial.version, _ID_CHARACTERS_SINCE):
                    raise NotApplicableError(
                        f"version {trial.version} does not say which characters a container ID has"
                    )
                if verb == "ADD" and container_id in _CONTAINER_IDS:
                    expect.failed(execution, why, follows="container-id-invalid")
                expect.refused(execution, why, codes=_bad_environment(trial))


@check("ifname-invalid", "skel-interface-name", "unusable-ifname")
def ifname_invalid(trial: Trial) -> None:
    """An interface name that the kernel does not accept is refused with code 4."""
    trial.prepare(trial.container)
    for ifname in _IFNAMES:
        execution = trial.add(environ={"CNI_IFNAME": ifname})
        expect.refused(execution, f"{ifname!r} is no name of an interface", codes=_bad_environment(trial))


@check("ifname-unusable", "unusable-ifname", profiles={Profile.INTERFACE})
def ifname_unusable(trial: Trial) -> None:
    """ADD fails if the interface that it is to make cannot have its name."""
    for ifname in _IFNAMES:
        execution = trial.add(environ={"CNI_IFNAME": ifname})
        expect.failed(execution, f"no interface can be called {ifname!r}")


@check("ifname-longest", "add-interface", "unusable-ifname", needs=("add-makes-interface",))
def ifname_longest(trial: Trial) -> None:
    """An interface name may have 15 bytes, as many as the kernel accepts."""
    container = trial.new_container(ifname=_LONGEST_IFNAME)
    before = links(container.netns)
    attach_unusual(trial, container)
    made = links(container.netns).keys() - before.keys()
    if made and _LONGEST_IFNAME not in made:
        raise ViolationError(f"{_LONGEST_IFNAME} in the container", ", ".join(sorted(made)))
    trial.detach(container)


@check("command-unknown", "skel-unknown-command")
def command_unknown(trial: Trial) -> None:
    """An unknown verb is refused with code 4, and repeated in the error."""
    execution = trial.call("RENAME", trial.container)
    expect.refused(execution, "there is no verb RENAME", codes=_bad_environment(trial), naming=["RENAME"])


@check("own-namespace", "skel-own-netns")
def own_namespace(trial: Trial) -> None:
    """ADD and DEL with the plugin's own namespace as CNI_NETNS are refused with code 8."""
    for verb in ("ADD", "DEL"):
        execution = trial.call(verb, trial.container, environ={"CNI_NETNS": trial.node_netns})
        expect.refused(execution, "CNI_NETNS is the namespace that the plugin is in", codes=[Code.INVALID_NETNS])


@check("own-namespace-allowed", "skel-netns-override")
def own_namespace_allowed(trial: Trial) -> None:
    """ADD and DEL in the plugin's own namespace are not refused for this reason if CNI_NETNS_OVERRIDE allows it."""
    for value in ("1", "true", "TRUE"):
        for verb in ("ADD", "DEL"):
            environ = {"CNI_NETNS": trial.node_netns, "CNI_NETNS_OVERRIDE": value}
            execution = trial.call(verb, trial.container, environ=environ)
            if execution.exit_code != 0 and _code(execution) == Code.INVALID_NETNS:
                raise ViolationError(f"no code 8, with CNI_NETNS_OVERRIDE={value}", expect.ending(execution), execution)


def _code(execution: Execution) -> object:
    """Return the code of an error, None without an error object: another check demands that."""
    try:
        return expect.document(execution).get("code")
    except ViolationError:
        return None


def _verbs(trial: Trial) -> Iterator[tuple[str, Sequence[str]]]:
    for verb, names in _NEEDED.items():
        if trial.has(verb):
            yield verb, [name for name in names if name != _ID or at_least(trial.version, _ID_NEEDED_SINCE)]


def _each_missing(trial: Trial) -> Iterator[tuple[str, str, Execution]]:
    """Execute each verb without each of its required variables; yield the verb, the variable and the execution."""
    for verb, names in _verbs(trial):
        for name in names:
            yield verb, name, trial.call(verb, trial.container, environ={name: ABSENT})


def _demand_named(execution: Execution, name: str, why: str) -> bool:
    """Demand that an error of code 4 names the variable; False if the execution ended otherwise."""
    if execution.exit_code == 0 or not execution.stdout.strip():
        return False
    if expect.document(execution).get("code") != Code.INVALID_ENVIRONMENT:
        return False
    expect.refused(execution, why, naming=[name])
    return True
