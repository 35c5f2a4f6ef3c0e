"""The requests of containerd (by way of go-cni) that the specification does not mention."""

from typing import Final

from harness.conformance.catalogue import check
from harness.conformance.engine import expect
from harness.conformance.engine.requests import ABSENT
from harness.conformance.engine.sequences import as_before, refuses, round_trip
from harness.conformance.engine.trial import Trial
from harness.conformance.finding import NotApplicableError, SlowError, ViolationError
from harness.overload import overload
from harness.runtime.kubernetes import pod_cni_args
from skel.versions import VERB_SINCE

_SLOW_SECONDS: Final = 5.0
"""The pause between two STATUS."""

_GO_NAMES: Final[dict[str, object]] = {
    "portMappings": [{"HostPort": 18101, "ContainerPort": 80, "Protocol": "tcp", "HostIP": ""}],
    "bandwidth": {"IngressRate": 80_000_000, "IngressBurst": 4_294_967_295},
}
_WRONG: Final[dict[str, tuple[object, object]]] = {
    "portMappings": (
        [{"hostPort": ["no port"], "containerPort": 80, "protocol": "tcp"}],
        [{"HostPort": ["no port"], "ContainerPort": 80, "Protocol": "tcp"}],
    ),
    "bandwidth": (
        {"ingressRate": ["no rate"], "ingressBurst": 8_000_000},
        {"IngressRate": ["no rate"], "IngressBurst": 8_000_000},
    ),
}


@check("containerd-stops", "habit-del-empty-netns", "del-repeated", needs=("del-twice", "del-netns-gone"))
def containerd_stops(trial: Trial) -> None:
    """DEL comes with the namespace, and again with an empty CNI_NETNS if the pod is stopped twice and removed."""
    with as_before(trial, "after the last DEL"):
        trial.attach()
        expect.succeeded(trial.delete(), "DEL as the pod is stopped")
        for moment in ("as the pod is stopped again", "as the pod is removed"):
            again = trial.delete(environ={"CNI_NETNS": ""}, prev_result=ABSENT)
            expect.succeeded(again, f"DEL with an empty CNI_NETNS, {moment},")


@check("containerd-args-in-any-order", "habit-args-order", "habit-k8s-args")
def containerd_args_in_any_order(trial: Trial) -> None:
    """The pairs of CNI_ARGS come in any order, with IgnoreUnknown last or in the middle."""
    container_id = trial.container.container_id
    pairs = [f"{key}={value}" for key, value in pod_cni_args("default", "web-0", container_id, container_id).items()]
    for ordered in (pairs[::-1], pairs[2:] + pairs[:2]):
        round_trip(trial, "with the pairs of CNI_ARGS in another order", environ={"CNI_ARGS": ";".join(ordered)})


@check("containerd-go-field-names", "habit-go-field-names", "habit-keys-in-any-case", "habit-empty-host-ip")
def containerd_go_field_names(trial: Trial) -> None:
    """The names of fields in runtimeConfig are Go's: HostPort, IngressRate."""
    known = sorted(trial.subject.plugin.capabilities & _GO_NAMES.keys())
    if not known:
        raise NotApplicableError(f"the configuration declares none of the capabilities {', '.join(sorted(_GO_NAMES))}")
    for capability in known:
        value = _GO_NAMES[capability]
        round_trip(trial, f"with Go's names in {capability}", config={"runtimeConfig": {capability: value}})
        # A plugin that reads a value refuses a wrong one, whatever the case of its key.
        written, shown = _WRONG[capability]
        if refuses(trial, config={"runtimeConfig": {capability: written}}) and not refuses(
            trial, config={"runtimeConfig": {capability: shown}}
        ):
            raise ViolationError(
                f"an error for the value in {shown}, as for that in {written}", "success: the key was not recognised"
            )


@check("containerd-annotations", "habit-unknown-capability")
def containerd_annotations(trial: Trial) -> None:
    """Unknown keys in runtimeConfig, such as a pod's annotations, are ignored."""
    annotations = {"example.org/colour": "blue", "kubernetes.io/psp": ""}
    round_trip(
        trial,
        "with annotations in runtimeConfig",
        config={"runtimeConfig": {"io.kubernetes.cri.pod-annotations": annotations}},
    )


@check("containerd-status", "habit-status-empty-variables", "habit-empty-variables", since=VERB_SINCE["STATUS"])
def containerd_status(trial: Trial) -> None:
    """STATUS comes with all variables of an attachment, which are set and empty."""
    if trial.status(environ=_attachment(ABSENT)).exit_code != 0:
        raise NotApplicableError("STATUS fails without these variables, too")
    expect.succeeded(trial.status(environ=_attachment("")), "STATUS with container ID, interface and namespace empty")


@check("containerd-polls", "habit-status-often", since=VERB_SINCE["STATUS"])
def containerd_polls(trial: Trial) -> None:
    """STATUS, which comes every five seconds, is quick and changes nothing: before the first pod, and beside it."""
    _poll(trial, "before the first ADD")
    trial.attach()
    _poll(trial, "while there is a pod")


def _poll(trial: Trial, when: str) -> None:
    with trial.unchanged(f"after STATUS, {when}"):
        for _ in range(2):
            execution = trial.status()
            if execution.timed_out or execution.seconds > _SLOW_SECONDS * overload():
                raise SlowError("an answer to STATUS before the next one comes", f"{execution.seconds:.1f} s")


def _attachment(value: object) -> dict[str, object]:
    return dict.fromkeys(("CNI_CONTAINERID", "CNI_IFNAME", "CNI_NETNS", "CNI_ARGS"), value)
