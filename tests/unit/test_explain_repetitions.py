"""The page of `explain`: polls and other repetitions are folded, and kinds of steps are explained once."""

from collections.abc import Iterator, Sequence
from itertools import count

from harness.runtime.node_snapshot import NODE
from harness.views.explanation import Explanation, explain_run, page
from harness.views.recorded_runs import RecordedRun
from harness.views.timeline import Bar
from harness.views.topology import Topology, TopologyPlace
from skel.spans import Span
from tests.explained import Explained

_POD = "default/web"


class Spans:
    """Spans that are made one after the other."""

    def __init__(self) -> None:
        self.all: list[Span] = []
        self._ids = count(1)

    def span(self, name: str, parent: Span | None = None, **attributes: object) -> Span:
        number = next(self._ids)
        above = parent.span_id if parent else ""
        made = Span(name, "a" * 32, f"{number:016x}", above, number * 1_000_000, 1, attributes)  # type: ignore[arg-type]
        made.end_ns = made.start_ns + 500_000
        self.all.append(made)
        return made

    def poll(self, parent: Span, *, error: str = "") -> None:
        """A STATUS of one plugin."""
        asked = self.span("GetStatusNetworkList", parent, network="net")
        one = self.span("getStatusNetwork", asked, plugin="bridge")
        called = self.span(
            "ExecPluginWithoutResult", one, path="/bin/bridge", stdin="{}", CNI_COMMAND="STATUS", exit_code=0
        )
        called.error = asked.error = error
        self.span("PluginMain", called, plugin="bridge")

    def sync(self, loop: Span, *, work: bool = False, error: str = "") -> None:
        """A sync of the pod."""
        sync = self.span("syncPod", loop, pod=_POD)
        self.poll(sync, error=error)
        inner = self.span("SyncPod", sync)
        if work:
            started = self.span("ExecPluginWithResult", inner, path="/bin/bridge", CNI_COMMAND="ADD", exit_code=0)
            main = self.span("PluginMain", started, plugin="bridge")
            for _ in range(3):
                self.span("nftables look-up", main, messages=["x"], doing=["look up a chain"])


def explained(spans: Spans) -> Explanation:
    nothing = Topology({NODE: TopologyPlace(NODE, "", (), (), ())})
    run = RecordedRun(
        verb="run", command="cni-harness run", prefix="cni-harness", started="2026-11-27T00:00:00Z", seconds=1.0,
        error="", place=(), pods=(_POD,), networks=(), spans=tuple(spans.all), before=nothing, after=nothing,
        changes=(),
    )  # fmt: skip
    return explain_run(run, _POD)


def bars(found: Sequence[Bar]) -> Iterator[Bar]:
    for bar in found:
        yield bar
        yield from bars(bar.inside)


def seen(found: Sequence[Bar]) -> Iterator[Bar]:
    """Yield the bars that a reader sees before a line is opened."""
    for bar in found:
        yield bar
        if bar.is_open:
            yield from seen(bar.inside)


def a_run(*, error: str = "") -> Explanation:
    """A run with two syncs that work, and three that do nothing."""
    spans = Spans()
    loop = spans.span("syncLoop", spans.span("cni-harness run"))
    for work in (True, True, False, False, False):
        spans.sync(loop, work=work, error=error if not work else "")
    return explained(spans)


def test_syncs_that_do_the_same_are_one_closed_line_with_all_of_them_inside() -> None:
    [root] = a_run().bars
    [loop] = root.inside

    *working, idle = loop.inside
    assert [(bar.times, bar.is_open, len(bar.inside)) for bar in working] == [(1, True, 2)] * 2
    assert (idle.times, idle.is_open, len(idle.inside)) == (3, False, 3)
    assert idle.time == "16.5 ms"
    assert [bar.times for bar in idle.inside] == [1, 1, 1]


def test_messages_that_repeat_are_one_line() -> None:
    [folded, *_] = [bar for bar in bars(a_run().bars) if bar.name == "nftables look-up" and bar.times > 1]

    assert folded.times == 3
    assert folded.kind == "kernel"


def test_polls_are_closed_and_their_documents_are_there_once() -> None:
    found = a_run()

    assert {bar.is_open for bar in bars(found.bars) if bar.name == "GetStatusNetworkList"} == {False}
    assert [(each.verb, each.times) for each in found.executions] == [("STATUS", 5), ("ADD", 1), ("ADD", 1)]
    assert dict(found.facts)["executions"] == "bridge STATUS (5 times), bridge ADD, bridge ADD"
    anchors = {each.anchor for each in found.executions}
    assert {bar.documents for bar in bars(found.bars) if bar.documents} == anchors


def test_polls_that_failed_stay() -> None:
    found = a_run(error="exit code 1")

    assert [(each.verb, each.times, each.error) for each in found.executions if each.verb == "STATUS"] == [
        ("STATUS", 2, ""),
        ("STATUS", 3, "exit code 1"),
    ]
    assert len([arrow for arrow in found.arrows if arrow.text == "STATUS"]) == 4


def test_the_sequence_has_one_poll_with_its_number() -> None:
    texts = [(arrow.kind, arrow.text) for arrow in a_run().arrows]

    assert texts.count(("call", "STATUS")) == 1
    assert [text for kind, text in texts if kind == "answer" and "polls" in text] == ["17.5 ms in 5 polls"]


def test_the_first_visible_step_of_each_kind_has_its_sentence() -> None:
    found = a_run()
    shown = Explained(page(found))

    first = [bar.name for bar in bars(found.bars) if bar.is_first]
    assert sorted(first) == sorted({bar.name for bar in bars(found.bars)})
    explained_names = {bar.name for bar in seen(found.bars) if bar.is_first}
    assert explained_names == {bar.name for bar in seen(found.bars)}, "PluginMain of a poll comes earlier"
    sentences = shown.texts("span", "meaning")
    assert len(sentences) == len(first)
    links = {attributes["href"] for tag, attributes in shown.tags if tag == "a" and "://" in attributes["href"]}
    assert links == {bar.meaning.address for bar in bars(found.bars) if bar.meaning}


def test_a_step_of_an_unknown_kind_is_shown_without_a_sentence() -> None:
    spans = Spans()
    spans.span("paint the fence", spans.span("cni-harness add"))

    shown = Explained(page(explained(spans)))

    assert [text.split("  ")[0].strip() for text in shown.texts("span", "name")] == [
        "cni-harness add",
        "paint the fence",
    ]
    assert len(shown.texts("span", "meaning")) == 1
