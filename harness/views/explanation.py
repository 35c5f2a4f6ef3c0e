"""The page of `explain`: one HTML file that loads nothing, of a recorded run or of the present state."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from markupsafe import Markup

from harness.html_page import rendered
from harness.output import printable
from harness.runtime.node_snapshot import label_of
from harness.views.attachments import KnownAttachment
from harness.views.call_tree import duration
from harness.views.recorded_runs import ListedNetwork, RecordedRun
from harness.views.run_steps import (
    ExecutedPlugin,
    Step,
    decoded_object,
    distinct_executions,
    document_lines,
    executed_plugins,
    steps_of,
)
from harness.views.sequence_diagram import Arrow, arrows, sequence_svg
from harness.views.timeline import Bar, timeline
from harness.views.topology import Topology
from harness.views.topology_svg import svg
from harness.views.trace_steps import is_kernel
from skel.errors import CniError
from skel.result import Result


class Change(NamedTuple):
    """A difference of the node; `kind` is "new", "gone" or "changed"."""

    kind: str
    words: str


class Explanation(NamedTuple):
    """The content of the page, in plain values. Without a run, all that only a run can tell is empty."""

    pod: str
    facts: tuple[tuple[str, str], ...]
    errors: tuple[str, ...]
    after: Topology
    networks: tuple[ListedNetwork, ...]
    verb: str = ""
    bars: tuple[Bar, ...] = ()
    arrows: tuple[Arrow, ...] = ()
    executions: tuple[ExecutedPlugin, ...] = ()
    before: Topology | None = None
    changes: tuple[Change, ...] = ()
    commands: tuple[str, ...] = ()
    results: tuple[tuple[str, str], ...] = ()
    """Without a run: network and interface of each result, and its text."""
    record_command: str = ""
    """Without a run: the command that makes a record."""


def explain_run(run: RecordedRun, pod: str) -> Explanation:
    """Return the explanation of a recorded run for a pod, such as `default/pod1`."""
    steps = steps_of(run.spans, pod)
    executions, anchors = distinct_executions(executed_plugins(steps, run.place))
    others = {label_of(other) for other in run.pods} - {label_of(pod)}
    changes = [words for words in run.changes if words[2:].partition(": ")[0] not in others]
    return Explanation(
        pod=pod,
        verb=run.verb,
        facts=(*_run_facts(run, steps, executions), ("changes of the node", str(len(changes)))),
        errors=tuple(dict.fromkeys([*([printable(run.error)] if run.error else []), *_errors(steps)])),
        bars=timeline(steps, anchors),
        arrows=tuple(arrows(steps)),
        executions=tuple(executions),
        before=run.before,
        after=run.after,
        changes=tuple(Change({"+": "new", "-": "gone"}.get(each[:1], "changed"), printable(each)) for each in changes),
        networks=tuple(map(_listed, run.networks)),
        commands=tuple(map(printable, _commands(run, pod))),
    )


def explain_now(pod: str, attachments: Sequence[KnownAttachment], topology: Topology, command: str) -> Explanation:
    """Return the explanation of the present state of a pod; `command` would make a record."""
    networks = [each.network for each in attachments]
    return Explanation(
        pod=pod,
        facts=tuple(_pod_facts(attachments)),
        errors=tuple(f"{each.network.name}: incomplete" for each in attachments if each.is_incomplete),
        results=tuple(
            (f"{each.name}, {each.ifname}", document_lines(json.dumps(each.result))) for each in networks if each.result
        ),
        after=topology,
        networks=tuple(_listed(ListedNetwork(each.name, each.source, each.config)) for each in networks),
        record_command=command,
    )


def page(explanation: Explanation) -> str:
    """Return the page. Everything that a plugin or a file has said is escaped."""
    return rendered(
        "harness.views",
        "explain",
        it=explanation,
        sequence=Markup("\n".join(sequence_svg(explanation.arrows))),  # noqa: S704 -- it escapes its texts
        before=_drawing(explanation.before),
        after=_drawing(explanation.after),
    )


def _drawing(topology: Topology | None) -> Markup:
    return Markup("\n".join(svg(topology)) if topology is not None else "")  # noqa: S704 -- it escapes its texts


def _commands(run: RecordedRun, pod: str) -> Iterator[str]:
    namespace, _, name = pod.partition("/")
    words = name if namespace == "default" else f"{name} --namespace {namespace}"
    opposite = {"add": "del", "run": "delete"}.get(run.verb)
    if opposite is not None:
        yield f"{run.prefix} {opposite} {words}"
    yield run.command
    yield f"{run.prefix} explain {words} --run {run.verb}"


def _run_facts(
    run: RecordedRun, steps: Sequence[Step], executions: Sequence[ExecutedPlugin]
) -> Iterator[tuple[str, str]]:
    yield "command", printable(run.command)
    yield "started", run.started
    yield "time", duration(round(run.seconds * 1e9))
    yield from _attachment_facts(steps)
    if executions:
        yield (
            "executions",
            ", ".join(
                f"{each.plugin} {each.verb}{f' ({each.times} times)' if each.times > 1 else ''}"
                for each in executions
                if not each.caller
            ),
        )
    kernel = sum(is_kernel(step.span) for outer in steps for step in outer.all())
    yield "messages to the kernel", str(kernel)


def _pod_facts(attachments: Sequence[KnownAttachment]) -> Iterator[tuple[str, str]]:
    for each in attachments[:1]:
        yield "container ID", printable(each.container_id)
        yield "network namespace", printable(each.netns)
    for each in attachments:
        words = _addresses(each.network.ifname, each.network.result or {})
        yield f"network {printable(each.network.name)}", printable(words)


def _attachment_facts(steps: Sequence[Step]) -> Iterator[tuple[str, str]]:
    """Yield the pod's identity and addresses, as the executions have them."""
    calls = [step.span.attributes for outer in steps for step in outer.all() if step.span.name.startswith("ExecPlugin")]
    for title, key in (("container ID", "CNI_CONTAINERID"), ("network namespace", "CNI_NETNS")):
        if values := list(dict.fromkeys(str(each.get(key, "")) for each in calls)):
            yield title, printable(", ".join(filter(None, values)))
    addresses: dict[str, str] = {}
    for each in calls:
        key = f"network {decoded_object(each.get('stdin')).get('name')}"
        if each.get("CNI_COMMAND") == "ADD" and each.get("exit_code") == 0:
            # The result of the last plugin of a list has the whole.
            addresses[key] = _addresses(str(each.get("CNI_IFNAME", "")), decoded_object(each.get("stdout")))
        elif each.get("CNI_COMMAND") == "DEL":
            addresses.pop(key, None)
    yield from ((printable(network), printable(words)) for network, words in addresses.items())


def _addresses(ifname: str, document: Mapping[str, object]) -> str:
    try:
        result = Result.decode_any(document, "result")
    except CniError:
        return f"{ifname}: no result that can be read"
    gateways = ", ".join(str(ip.gateway) for ip in result.ips if ip.gateway is not None)
    addresses = ", ".join(str(ip.address) for ip in result.ips) or "no address"
    return f"{ifname}: {addresses}{f', gateway {gateways}' if gateways else ''}"


def _errors(steps: Sequence[Step]) -> Iterator[str]:
    """Yield the errors, each of the outermost step that has it; refusals of the kernel are answers."""
    for step in steps:
        if step.span.error and not is_kernel(step.span):
            yield printable(f"{step.span.name}: {step.span.error}")
        else:
            yield from _errors(step.inside)


def _listed(network: ListedNetwork) -> ListedNetwork:
    return ListedNetwork(printable(network.name), printable(network.source), document_lines(network.text))
