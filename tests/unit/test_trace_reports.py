"""Reports of plugins are read whatever a plugin writes, and become spans of the trace."""

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import fast_stdlib
from harness.libcni.execute import Execution, Executor
from harness.trace_recorder import SpanEvent, TraceRecorder
from harness.views.call_tree import TreePrinter

if TYPE_CHECKING:
    from skel.spans import Span

ADD = """
cat > /dev/null
{report}
echo '{{"cniVersion": "1.0.0"}}'
"""


class Traced:
    """Executes a plugin in the language of the shell, and has the spans and the tree."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lines: list[str] = []
        self.events: list[SpanEvent] = []
        self.spans: dict[str, Span] = {}

    def run(self, script: str, *, timeout: float = 60.0) -> None:
        path = self.folder / "plugin"
        path.write_text(f"#!/bin/sh\n{script}")
        path.chmod(0o755)
        printer = TreePrinter(lambda text: self.lines.extend(text.split("\n")), colour=False)

        def observe(event: SpanEvent) -> None:
            self.events.append(event)
            printer(event)

        recorder = TraceRecorder(None, observe, keep=True)
        with fast_stdlib.recorded_by(recorder), fast_stdlib.span("root", waits=True):
            Executor([self.folder], timeout=timeout, linger=1).run("plugin", "ADD", b"{}", {"CNI_IFNAME": "eth0"})
        printer.finish()
        self.spans = {span.name: span for span in recorder.spans}


@pytest.fixture
def traced(tmp_path: Path) -> Traced:
    return Traced(tmp_path)


def line(
    name: str, *, end: int = 2_000_000, span_id: str = "00000000000000aa", parent: str = "", **more: object
) -> str:
    span = {"span": name, "trace": "a" * 32, "id": span_id, "parent": parent, "start": 1_000_000, "end": end, "pid": 7}
    return f"echo '{json.dumps(span | more)}' >> $CNI_HARNESS_TRACE"


def test_plugin_that_reports_nothing_is_a_leaf_and_the_tree_says_so(traced: Traced) -> None:
    traced.run(ADD.format(report=""))

    assert list(traced.spans) == ["root", "FindInPath", "ExecPluginWithResult"]
    assert any("plugin reports no inner steps" in each for each in traced.lines)
    assert any("CNI_IFNAME=eth0" in each for each in traced.lines)
    assert "│ │ stdout  {" in traced.lines


def test_a_plugin_gets_the_span_of_its_execution(traced: Traced) -> None:
    traced.run(ADD.format(report='echo "$TRACEPARENT" > "$0.parent"'))

    _, trace_id, span_id, flags = (traced.folder / "plugin.parent").read_text().strip().split("-")
    execution = traced.spans["ExecPluginWithResult"]
    assert (trace_id, span_id, flags) == (execution.trace_id, execution.span_id, "01")


def test_spans_of_another_language_are_adopted(traced: Traced) -> None:
    inner = line("inner", span_id="00000000000000bb", parent="00000000000000aa", attributes={"size": 3})
    traced.run(ADD.format(report=f"{line('outer')}\n{inner}"))

    execution, outer, inner_span = (traced.spans[name] for name in ("ExecPluginWithResult", "outer", "inner"))
    assert (outer.parent_id, inner_span.parent_id) == (execution.span_id, outer.span_id)
    assert outer.trace_id == execution.trace_id
    assert "│ ├ outer" in traced.lines
    assert "│ │ ├ inner  size=3  1.0 ms" in traced.lines


@pytest.mark.parametrize(
    "report",
    [
        "head -c 10000000 /dev/urandom >> $CNI_HARNESS_TRACE",
        "head -c 10000000 /dev/zero >> $CNI_HARNESS_TRACE",
        'echo "[1]" >> $CNI_HARNESS_TRACE; echo "{}" >> $CNI_HARNESS_TRACE; printf half >> $CNI_HARNESS_TRACE',
        line("ends before it begins", end=5),
        line("numbers", attributes=[1]),
        line("no ID", span_id="xyz"),
        line("no time", start="soon"),
    ],
    ids=["noise", "zeros", "other JSON", "times", "attributes", "ID", "text"],
)
def test_garbage_is_left_out(traced: Traced, report: str) -> None:
    traced.run(ADD.format(report=report))

    assert list(traced.spans) == ["root", "FindInPath", "ExecPluginWithResult"]


def test_control_characters_do_not_reach_the_terminal(traced: Traced) -> None:
    traced.run(ADD.format(report=line("\x1b[31mred", error="\x1b[2J", attributes={"key": "\x07"})))

    assert not any(sign in text for text in traced.lines for sign in "\x1b\x07")


def test_hanging_plugin_shows_its_open_step_before_it_ends(traced: Traced) -> None:
    def begun() -> list[str]:
        return [each.span.name for each in traced.events if each.begins]

    traced.run(f"cat > /dev/null\n{line('waiting for a lock', end=0)}\nexec sleep 1000", timeout=1.0)

    assert begun()[-1] == "waiting for a lock"
    execution = traced.spans["ExecPluginWithResult"]
    assert execution.error == "killed at the time limit of 1 s"
    hung = traced.spans["waiting for a lock"]
    assert hung.end_ns == 0
    assert "│ │ └ waiting for a lock  did not end" in traced.lines
    told = next(each for each in traced.events if each.span is hung)
    assert traced.events.index(told) < len(traced.events) - 2


def test_parallel_threads_have_their_own_columns_and_parents() -> None:
    lines: list[str] = []
    printer = TreePrinter(lambda text: lines.extend(text.split("\n")), colour=False)
    recorder = TraceRecorder(None, printer, keep=True)
    root = recorder.begin("root", {}, waits=True)
    one, two = recorder.branch("pod1"), recorder.branch("pod2")

    first = one.begin("add", {}, waits=True)
    second = two.begin("add", {}, waits=True)
    one.end(one.begin("step 1", {}, waits=False), None)
    two.end(two.begin("step 2", {}, waits=False), None)
    two.end(second, None)
    one.end(first, None)
    recorder.end(root, None)
    printer.finish()

    by_name = {span.name: span for span in recorder.spans}
    assert by_name["step 1"].parent_id == first.span_id
    assert by_name["step 2"].parent_id == second.span_id
    shown = [" ".join(each.split()[:5]) for each in lines]
    assert shown[:3] == ["root", "pod1 ├ add", "pod2 ├ add"]
    assert shown[3].startswith("pod1 │ ├ step 1")
    assert shown[4].startswith("pod2 │ ├ step 2")


def test_a_verb_that_a_signal_ends_shows_its_exit_code() -> None:
    recorder = TraceRecorder(None, lambda _: None, keep=True)

    with pytest.raises(SystemExit), fast_stdlib.recorded_by(recorder), fast_stdlib.span("syncLoop"):
        sys.exit(143)

    assert [span.error for span in recorder.spans] == ["exit code 143"]


def test_observer_of_minus_v_still_gets_delegates_alone(tmp_path: Path) -> None:
    plugin = tmp_path / "plugin"
    plugin.write_text(f"#!/bin/sh\n{ADD.format(report=line('span'))}")
    plugin.chmod(0o755)
    seen: list[Execution] = []

    Executor([tmp_path], observe=seen.append).run("plugin", "ADD", b"{}", {})

    assert [each.delegations for each in seen] == [()]
    assert "TRACEPARENT" not in seen[0].environ or "TRACEPARENT" in os.environ
