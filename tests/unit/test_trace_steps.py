"""`--trace`: the steps for reading, without messages to the kernel and without repeated polls."""

from contextlib import contextmanager
from typing import TYPE_CHECKING

from harness.trace_recorder import TraceRecorder
from harness.views.call_tree import TreePrinter, duration
from harness.views.trace_steps import StepsPrinter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skel.spans import Span


class Recorded:
    """Spans of one thread, and the lines that are printed of them."""

    def __init__(self, root: str) -> None:
        self.lines: list[str] = []
        self.printer = StepsPrinter(TreePrinter(self._write, colour=False, whole=False))
        self.recorder = TraceRecorder(None, self.printer, keep=True)
        self._root = self.recorder.begin(root, {}, waits=True)

    def _write(self, text: str) -> None:
        self.lines += text.split("\n")

    @contextmanager
    def step(self, name: str, *, fails: bool = False, waits: bool = False, **attributes: str) -> "Iterator[Span]":
        """Record a step, whose inner steps are those of the block."""
        span = self.recorder.begin(name, dict(attributes), waits=waits)
        yield span
        self.recorder.end(span, RuntimeError("it failed") if fails else None)

    def poll(self, *, fails: bool = False) -> None:
        """Record a STATUS of the network "net"."""
        with (
            self.step("GetStatusNetworkList", fails=fails, network="net"),
            self.step("getStatusNetwork", plugin="bridge"),
            self.step("ExecPluginWithoutResult", waits=True, stdin="{}"),
            self.step("netlink RTM_GETLINK", doing="look up"),
        ):
            pass

    def sync(self, *, phase: str = "Running", fails: bool = False) -> None:
        """Record a sync of a pod that does nothing."""
        with self.step("syncPod", waits=True, pod="default/web"):
            with self.step("generateAPIPodStatus", phase=phase):
                pass
            self.poll(fails=fails)
            with self.step("SyncPod"), self.step("computePodActions"):
                pass

    def printed(self) -> list[str]:
        """End the trace; return the first words of each line."""
        self.recorder.end(self._root, None)
        self.printer.finish()
        return [" ".join(line.split("  ")[0].split()) for line in self.lines]


def shown(recorded: Recorded, word: str) -> list[str]:
    return [line.lstrip("│├└ ") for line in recorded.lines if word in line]


def test_messages_to_the_kernel_are_a_number_in_the_line_of_their_step() -> None:
    recorded = Recorded("cni-harness add")

    with recorded.step("cmdAdd"), recorded.step("make links"):
        for name in ("netlink RTM_NEWLINK", "nftables commit"):
            with recorded.step(name, doing="something"):
                pass

    assert recorded.printed() == ["cni-harness add", "├ cmdAdd", "│ ├ make links", "│ └ cmdAdd", "└ cni-harness add"]
    assert "make links  2 messages to the kernel" in recorded.lines[2]


def test_documents_and_long_attributes_are_left_out() -> None:
    recorded = Recorded("cni-harness add")

    with recorded.step("ExecPluginWithResult", path="/bin/x", CNI_NETNS="/run/netns/y", stdin="{}", stdout="{}"):
        pass

    assert recorded.printed() == ["cni-harness add", "├ ExecPluginWithResult", "└ cni-harness add"]
    assert "/bin/x" in recorded.lines[1]
    assert "netns" not in recorded.lines[1]


def test_polls_after_the_first_are_one_line_with_their_number_and_time() -> None:
    recorded = Recorded("cni-harness kubelet")
    with recorded.step("syncLoop", waits=True):
        for _ in range(4):
            recorded.poll()
    times = [span.end_ns - span.start_ns for span in recorded.recorder.spans if span.name == "GetStatusNetworkList"]

    recorded.printed()

    first, end, others = shown(recorded, "GetStatusNetworkList")
    assert first == "GetStatusNetworkList  net"
    assert end.startswith("GetStatusNetworkList  ")
    assert others.startswith("GetStatusNetworkList  net  3 more, in all  ")
    assert others.endswith(f"  {duration(sum(times[1:]))}")
    assert shown(recorded, "getStatusNetwork") == shown(recorded, "kernel") == []
    assert len(recorded.recorder.spans) == 2 + 4 * 4, "the trace for files is whole"


def test_a_poll_of_the_verb_status_is_shown_whole() -> None:
    recorded = Recorded("cni-harness status")

    recorded.poll()

    assert "│ │ ├ ExecPluginWithoutResult" in recorded.printed()


def test_failed_polls_are_all_shown() -> None:
    recorded = Recorded("cni-harness kubelet")
    with recorded.step("syncLoop", waits=True):
        for fails in (False, True, True, False):
            recorded.poll(fails=fails)

    recorded.printed()

    assert [line.split("  ")[-1] for line in shown(recorded, "it failed")] == ["it failed"] * 2
    assert len([line for line in shown(recorded, "GetStatusNetworkList") if "1 more" in line]) == 1


def test_syncs_that_change_nothing_are_counted() -> None:
    recorded = Recorded("cni-harness run")
    with recorded.step("syncLoop", waits=True):
        recorded.sync(phase="Pending")
        recorded.sync(phase="Pending")
        with recorded.step("syncPod", waits=True, pod="default/web"):
            with recorded.step("generateAPIPodStatus", phase="Pending"):
                pass
            with recorded.step("SyncPod"), recorded.step("startContainer", container="server"):
                pass
        recorded.sync(phase="Running")
        recorded.sync(phase="Running")
        recorded.sync(phase="Running", fails=True)

    recorded.printed()

    assert [line.split()[1] for line in shown(recorded, "phase=")] == [
        "phase=Pending",
        "phase=Pending",
        "phase=Running",
        "phase=Running",
    ]
    assert len(shown(recorded, "startContainer")) == 1
    assert [line.split("  ")[2] for line in shown(recorded, "syncPod") if "more" in line] == ["2 more, in all"]


def test_a_sync_that_failed_is_shown() -> None:
    recorded = Recorded("cni-harness run")
    with recorded.step("syncLoop", waits=True):
        recorded.sync()
        with (
            recorded.step("syncPod", waits=True, fails=True, pod="default/web"),
            recorded.step("generateAPIPodStatus", phase="Running"),
        ):
            pass

    recorded.printed()

    assert [line.split("  ")[0] for line in shown(recorded, "it failed")] == ["syncPod"]
    assert len(shown(recorded, "phase=Running")) == 2


def test_a_sync_that_did_not_end_is_shown_at_last() -> None:
    recorded = Recorded("cni-harness run")
    recorded.recorder.begin("syncLoop", {}, waits=True)
    recorded.sync()
    recorded.recorder.begin("syncPod", {"pod": "default/web"}, waits=True)
    recorded.recorder.begin("SyncPod", {}, waits=False)

    assert not any("did not end" in line for line in recorded.lines)
    recorded.printer.finish()

    assert [line.split("  ")[0] for line in shown(recorded, "did not end")] == [
        "SyncPod",
        "syncPod",
        "syncLoop",
        "cni-harness run",
    ]
