"""The cost of a trace: `python -m tools.bench.tracing`, as root, on a node made for it.

ADDs of a bridge that masquerades, with served plugins; in turns without a trace and with `--trace --trace-file`. Once
libcni calls the plugins, and their processor time alone is counted; once `cni-harness add` does, and all is counted.
"""

import os
import sys
from argparse import ArgumentParser
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from harness.bench.resources import ControlGroup, control_group
from harness.bench.suite_node import Spawner, serving
from harness.runtime.site import Site
from tools.bench.traced_adds import NETWORK, add, delete, own_seconds, verb

_WAYS = ("untraced", "traced")


def main(arguments: list[str]) -> int:
    """Measure, print both medians and the ratio of plugins alone and of all; 1 if either is above 1.05."""
    parser = ArgumentParser(prog="python -m tools.bench.tracing", description=__doc__)
    parser.add_argument("--adds", type=int, default=1000, help="of each way, in all turns together")
    parser.add_argument("--turns", type=int, default=20)
    options = parser.parse_args(arguments)
    batch = max(1, options.adds // options.turns)
    plugins: dict[str, list[float]] = {way: [] for way in _WAYS}
    whole: dict[str, list[float]] = {way: [] for way in _WAYS}
    with ExitStack() as stack:
        state = Path(stack.enter_context(TemporaryDirectory(prefix="cni-harness-tracing-", dir="/var/tmp")))
        site = stack.enter_context(Site(state, "tracing"))
        node = site.node()
        group = stack.enter_context(control_group(f"cni-harness-tracing-{os.getpid()}"))
        spawner = Spawner(node, group)
        stack.callback(spawner.close)
        bin_dir = stack.enter_context(serving(spawner, node.folder.name)).bin_dir
        place = [*("--node", str(node.name), "--state-dir", str(state), "--bin-dir", str(bin_dir))]
        conf = state / "conf"
        conf.mkdir()
        (conf / "net.conflist").write_bytes(NETWORK.raw)
        place += ["--conf-dir", str(conf)]
        for turn in range(options.turns + 1):
            for way in _WAYS if turn % 2 else reversed(_WAYS):
                pods = list(site.pods(batch))
                seconds = _of_plugins(group, spawner, str(bin_dir), str(node.var_lib_cni), pods, way)
                spawner.call(delete, str(bin_dir), str(node.var_lib_cni), pods)
                names = [f"pod{number}" for number in range(batch)]
                traced = ["--trace", "--trace-file", os.devnull] if way == "traced" else []
                before = group.cpu_seconds_at_rest()
                spawner.call(verb, ["add", *names, *place, *traced])
                all_of_it = group.cpu_seconds_at_rest() - before
                spawner.call(verb, ["del", "--all", *place])
                if turn:  # the first is for warming up
                    plugins[way].append(seconds / batch)
                    whole[way].append(all_of_it / batch)
    sys.stdout.write(f"{options.turns * batch} ADDs each way; processor time of one, median of {options.turns} turns\n")
    ratios = []
    for title, taken in (("launchers and plugins", plugins), ("`cni-harness add`, whole", whole)):
        off, on = (median(taken[way]) * 1000 for way in _WAYS)
        ratios.append(on / off)
        sys.stdout.write(f"{title}: {off:.2f} ms untraced, {on:.2f} ms traced, ratio {on / off:.3f}\n")
    return int(any(ratio > 1.05 for ratio in ratios))  # noqa: PLR2004 -- the target


def _of_plugins(
    group: ControlGroup, spawner: Spawner, bin_dir: str, var_lib_cni: str, pods: list[str], way: str
) -> float:
    """Return the processor time of the group, without libcni's process, in seconds."""
    before = group.cpu_seconds_at_rest() - spawner.call(own_seconds)
    spawner.call(add, bin_dir, var_lib_cni, pods, way == "traced")
    return group.cpu_seconds_at_rest() - spawner.call(own_seconds) - before


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
