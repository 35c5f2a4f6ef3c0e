"""The figures of a run as a picture, by matplotlib (the extra `bench`)."""

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from harness.bench.measurements import Measurements, Summary, Work

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SUFFIXES: Final = (".svg", ".png")
_COLOURS: Final = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00")
"""People with colour blindness can tell these apart, too (Okabe and Ito)."""
_INCHES: Final = (4.2, 3.2)
_DPI: Final = 150
_VERBS: Final = ("ADD", "DEL")


class PlotError(Exception):
    """Nothing can be drawn."""


def check_plots(paths: Sequence[Path]) -> None:
    """Raise PlotError if `plot` would not write these files."""
    for path in paths:
        if path.suffix not in SUFFIXES:
            raise PlotError(f"{path}: wanted the name of a file in {' or '.join(SUFFIXES)}")
    if paths and find_spec("matplotlib") is None:
        raise PlotError(f"no matplotlib here, which draws: `{sys.executable} -m pip install 'matplotlib>=3.9'`")


def plot(recording: Measurements, suites: Sequence[str], networks: Sequence[str], paths: Sequence[Path]) -> None:
    """Draw a row for each network into every one of `paths`: latency, many at once, growth. Raises OSError."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullFormatter

    # The same figures give the same file.
    with mpl.rc_context({"svg.hashsalt": "cni-harness", "svg.fonttype": "none", "font.size": 8}):
        figure = Figure(figsize=(3 * _INCHES[0], len(networks) * _INCHES[1]), layout="constrained")
        rows = figure.subplots(len(networks), 3, squeeze=False)
        for network, (latency, crowds, growth) in zip(networks, rows, strict=True):
            works = [each for each in recording.works if (each.verb, each.network, each.plugin) == ("ADD", network, "")]
            _boxes(latency, recording, suites, network)
            crowds.set(xscale="log", yscale="log")
            _lines(crowds, recording, suites, [each for each in works if each.cold], "at_once")
            crowds.set(title=f"{network}: many ADDs at once, cold node", xlabel="ADDs", ylabel="wall time, ms")
            for axis in (crowds.xaxis, crowds.yaxis):
                axis.set_major_formatter("{x:g}")
                axis.set_minor_formatter(NullFormatter())
            _lines(growth, recording, suites, [each for each in works if not each.cold], "pods")
            growth.set(title=f"{network}: ADD on a filled node", xlabel="pods before", ylabel="median, ms")
            growth.set_ylim(bottom=0)
        for path in paths:
            metadata: dict[str, Any] = {"Date": None} if path.suffix == ".svg" else {}
            path.parent.mkdir(parents=True, exist_ok=True)
            figure.savefig(path, dpi=_DPI, metadata=metadata)


def _boxes(axes: "Axes", recording: Measurements, suites: Sequence[str], network: str) -> None:
    """Draw a box with whiskers for each suite and verb: median, quartiles, the 1st and the 99th percentile."""
    for index, suite in enumerate(suites):
        series = [recording.samples(suite, Work(verb, network)) for verb in _VERBS]
        axes.boxplot(
            [[sample * 1000 for sample in samples] for samples in series],
            positions=[group * (len(suites) + 1) + index for group in range(len(_VERBS))],
            widths=0.7,
            whis=(1, 99),
            showfliers=False,
            patch_artist=True,
            boxprops={"facecolor": _colour(index)},
            medianprops={"color": "black"},
            label=suite,
        )
    axes.set_xticks([group * (len(suites) + 1) + (len(suites) - 1) / 2 for group in range(len(_VERBS))], _VERBS)
    axes.set(title=f"{network}: one after the other", ylabel="ms")
    axes.set_ylim(bottom=0)
    axes.legend()


def _lines(axes: "Axes", recording: Measurements, suites: Sequence[str], works: Sequence[Work], across: str) -> None:
    for index, suite in enumerate(suites):
        points = [
            (getattr(work, across), Summary.of(samples).median * 1000)
            for work in works
            if (samples := recording.samples(suite, work))
        ]
        if len(points) > 1:
            axes.plot(*zip(*points, strict=True), marker="o", color=_colour(index), label=suite)
    axes.margins(y=0.1)
    axes.set_xticks([getattr(work, across) for work in works])
    if axes.lines:
        axes.legend()


def _colour(index: int) -> str:
    return _COLOURS[index % len(_COLOURS)]
