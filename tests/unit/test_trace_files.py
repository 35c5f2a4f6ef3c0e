"""The two forms of trace files, held against their definitions, and the export to a collector."""

import base64
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import Parse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from harness.views.trace_formats import otlp_document, trace_events
from skel.spans import Span
from tests.cli import ROOT
from tests.nodes import HANG

OWN, PLUGIN = 100, 200
TRACE = "0af7651916cd43dd8448eb211c80319c"


def span(name: str, number: int, parent: int, start: int, end: int, *, pid: int = OWN, thread: int = 0) -> Span:
    """A span with times in microseconds after a moment."""
    made = Span(name, TRACE, f"{number:016x}", f"{parent:016x}" if parent else "", 10**18 + start * 1000, pid, {})
    made.end_ns = 10**18 + end * 1000 if end else 0
    made.thread = thread
    return made


def sample() -> list[Span]:
    """Two pods at the same time, one plugin each; the second fails, and has a step that did not end."""
    spans = [
        span("cni-harness add", 1, 0, 0, 1000),
        span("setupPodNetwork", 2, 1, 10, 500, thread=1),
        span("ExecPluginWithResult", 3, 2, 20, 400, thread=1),
        span("PluginMain", 4, 3, 30, 390, pid=PLUGIN),
        span("cmdAdd", 5, 4, 40, 380, pid=PLUGIN),
        span("setupPodNetwork", 6, 1, 15, 900, thread=2),
        span("ExecPluginWithResult", 7, 6, 20, 800, thread=2),
        span("PluginMain", 8, 7, 25, 700, pid=PLUGIN),  # a worker of the server, and it overlaps with its other call
        span("waits", 9, 8, 30, 0, pid=PLUGIN),
    ]
    spans[1].track, spans[5].track = "pod1", "pod2"
    spans[2].attributes |= {"exit_code": 0, "stdin": '{"a": "\u00e4\ud800"}', "reports_steps": True}
    spans[4].attributes |= {"messages": ["RTM_NEWLINK", "RTM_GETLINK"], "share": 0.5}
    spans[7].attributes["plugin"] = "bridge"
    spans[7].error = "exit code 1"
    return spans


def test_otlp_document_is_readable_by_opentelemetrys_definition() -> None:
    text = json.dumps(otlp_document(sample(), own_pid=OWN, version="1.2"))

    # The mapping of OTLP differs from Protobuf's in one point: IDs are hexadecimal, and Protobuf's bytes are base64.
    request = Parse(
        re.sub(r'"(\w*(?:span|trace)Id)": "(\w+)"', _in_base64, text, flags=re.IGNORECASE), ExportTraceServiceRequest()
    )
    found = [each for resource in request.resource_spans for each in resource.scope_spans[0].spans]
    by_id = {each.span_id.hex(): each for each in found}
    for each in sample():
        read = by_id[each.span_id]
        assert (read.trace_id.hex(), read.name, read.parent_span_id.hex()) == (TRACE, each.name, each.parent_id)
        assert (read.start_time_unix_nano, read.end_time_unix_nano) == (each.start_ns, each.end_ns or each.start_ns)
    processes = [
        {each.key: each.value.string_value or each.value.int_value for each in resource.resource.attributes}
        for resource in request.resource_spans
    ]
    assert processes == [
        {"service.name": "cni-harness", "process.pid": OWN},
        {"service.name": "cni-plugin", "process.pid": PLUGIN},
    ]
    assert [by_id[f"{number:016x}"].status.message for number in (4, 8, 9)] == ["", "exit code 1", "did not end"]
    assert [by_id[f"{number:016x}"].status.code for number in (4, 8, 9)] == [0, 2, 2]
    assert [by_id[f"{number:016x}"].kind for number in (2, 3, 4)] == [1, 3, 2]
    values = {each.key: each.value for each in by_id[f"{5:016x}"].attributes}
    assert [each.string_value for each in values["messages"].array_value.values] == ["RTM_NEWLINK", "RTM_GETLINK"]
    assert values["share"].double_value == 0.5


def _in_base64(found: re.Match[str]) -> str:
    return f'"{found[1]}": "{base64.b64encode(bytes.fromhex(found[2])).decode()}"'


def test_trace_events_follow_the_format() -> None:
    document = trace_events(sample(), own_pid=OWN)

    assert json.loads(json.dumps(document)) == document
    assert document["displayTimeUnit"] in {"ms", "ns"}
    events = document["traceEvents"]
    assert {each["ph"] for each in events} == {"X", "M", "s", "f"}
    for event in events:
        assert isinstance(event["name"], str)
        assert isinstance(event["pid"], int)
        if event["ph"] == "M":
            assert event["name"] in {"process_name", "process_sort_index", "thread_name"}
        else:
            assert isinstance(event["tid"], int)
            assert isinstance(event["ts"], float)
    whole = [each for each in events if each["ph"] == "X"]
    assert len(whole) == len(sample())
    first = next(each for each in whole if each["name"] == "cmdAdd")
    assert (first["ts"], first["dur"]) == (10**15 + 40, 340)
    names = {each["pid"]: each["args"]["name"] for each in events if each["name"] == "process_name"}
    assert names == {OWN: "cni-harness", PLUGIN: "bridge"}


def test_trace_events_of_one_thread_nest() -> None:
    threads: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for each in trace_events(sample(), own_pid=OWN)["traceEvents"]:
        if each["ph"] == "X":
            threads.setdefault((each["pid"], each["tid"]), []).append((each["ts"], each["ts"] + each["dur"]))

    for found in threads.values():
        for start, end in found:
            for other_start, other_end in found:
                assert not start < other_start < end < other_end
    assert len([pid for pid, _ in threads if pid == PLUGIN]) == 2


def test_arrows_of_trace_events_are_in_pairs_and_end_at_events() -> None:
    events = trace_events(sample(), own_pid=OWN)["traceEvents"]

    starts = {each["id"]: each for each in events if each["ph"] == "s"}
    ends = {each["id"]: each for each in events if each["ph"] == "f"}
    assert set(starts) == set(ends)
    assert len(starts) == 2
    for arrow in [*starts.values(), *ends.values()]:
        around = [
            each
            for each in events
            if each["ph"] == "X"
            and (each["pid"], each["tid"]) == (arrow["pid"], arrow["tid"])
            and each["ts"] <= arrow["ts"] <= each["ts"] + each["dur"]
        ]
        assert around


PROGRAM = """
import sys
from pathlib import Path
from harness.views.trace_formats import traced
import fast_stdlib
with traced("add", tree=None, files=[Path(each) for each in sys.argv[1:]], say=print):
    with fast_stdlib.span("inner", size=3, names=["a"]):
        pass
    if {fails}:
        raise SystemExit(3)
"""


def run(*files: Path, fails: bool = False, **environ: str) -> "subprocess.CompletedProcess[str]":
    environment = {"PATH": "/usr/bin", "PYTHONPATH": str(ROOT), **environ}
    command = [sys.executable, "-c", PROGRAM.format(fails=fails), *map(str, files)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=HANG, check=False)


def names_in(document: dict[str, Any]) -> list[str]:
    (resource,) = document["resourceSpans"]
    return [each["name"] for each in resource["scopeSpans"][0]["spans"]]


def test_the_name_of_a_file_decides_its_form(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("t.json", "t.perfetto.json", "t.jsonl")]

    assert run(*files).returncode == 0
    assert run(*files, fails=True).returncode == 3

    assert names_in(json.loads(files[0].read_text())) == ["cni-harness add", "inner"]
    assert "traceEvents" in json.loads(files[1].read_text())
    lines = [json.loads(line) for line in files[2].read_text().splitlines()]
    assert [names_in(line) for line in lines] == [["cni-harness add", "inner"]] * 2
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}


def test_a_pipe_is_written_and_not_replaced() -> None:
    ran = run(Path("/dev/stdout"))

    assert names_in(json.loads(ran.stdout)) == ["cni-harness add", "inner"]
    assert Path("/dev/stdout").is_symlink()


def test_the_caller_s_trace_is_continued(tmp_path: Path) -> None:
    run(tmp_path / "t.json", TRACEPARENT=f"00-{TRACE}-00000000000000ff-01")

    root, inner = json.loads((tmp_path / "t.json").read_text())["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert (root["traceId"], root["parentSpanId"]) == (TRACE, "00000000000000ff")
    assert inner["parentSpanId"] == root["spanId"]


def test_a_file_that_cannot_be_written_is_a_warning(tmp_path: Path) -> None:
    ran = run(tmp_path / "none" / "t.jsonl")

    assert ran.returncode == 0
    assert "Warning: no trace is written to" in ran.stdout


class Collector(HTTPServer):
    """Takes traces on the loopback interface."""

    def __init__(self, status: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status = status
        self.requests: list[tuple[str, bytes]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        """Keep the request."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests.append((self.path, body))
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector(200) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_spans_are_exported_to_a_collector(collector: Collector, tmp_path: Path) -> None:
    ran = run(tmp_path / "t.json", OTEL_EXPORTER_OTLP_ENDPOINT=collector.url)

    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    ((path, body),) = collector.requests
    assert path == "/v1/traces"
    request = ExportTraceServiceRequest()
    request.ParseFromString(body)
    sent = {each.span_id.hex(): each.name for each in request.resource_spans[0].scope_spans[0].spans}
    written = json.loads((tmp_path / "t.json").read_text())["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert sent == {each["spanId"]: each["name"] for each in written}


def test_a_collector_that_refuses_is_a_warning(collector: Collector) -> None:
    collector.status = 400

    ran = run(OTEL_EXPORTER_OTLP_ENDPOINT=collector.url, fails=True)

    assert ran.returncode == 3
    assert f"Warning: no trace was exported: {collector.url} did not take it" in ran.stdout


def test_no_collector_costs_seconds_at_most() -> None:
    ran = run(OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9", OTEL_EXPORTER_OTLP_TIMEOUT="1")

    assert ran.returncode == 0
    assert "Warning: no trace was exported" in ran.stdout


def test_warning_without_the_otel_extra_names_the_install_command(tmp_path: Path) -> None:
    (tmp_path / "opentelemetry.py").write_text("")  # an import of the real package finds this module instead

    ran = run(OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9", PYTHONPATH=f"{tmp_path}:{ROOT}")

    assert ran.returncode == 0
    assert "pip install 'cni-harness[otel]'" in ran.stdout
