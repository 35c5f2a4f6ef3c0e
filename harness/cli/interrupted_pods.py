"""The pods of manifests that stay on the node when a signal ends `run` or `delete`: their names, and what to do."""

import shlex
from contextlib import contextmanager
from typing import TYPE_CHECKING

from harness.cli.kubectl import pod_row
from harness.cli.kubelet_node import is_running
from harness.cli.options import Settings
from harness.cli.present_pods import pods_at_present
from harness.output import say

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from harness.kubelet.v1 import V1Pod


@contextmanager
def stays_told(settings: Settings, pods: "Sequence[V1Pod]", *, ending: bool = False) -> "Iterator[None]":
    """If a signal ends the block, name on stderr those of the pods that stay, and the command that removes them.

    `ending` says that the block removes the pods; otherwise it makes them.
    """
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        _tell(settings, {pod.metadata.uid for pod in pods}, ending=ending)
        raise


def _tell(settings: Settings, uids: set[str], *, ending: bool) -> None:
    kept = [(pod, status) for pod, status in pods_at_present(settings) if pod.metadata.uid in uids]
    if not kept:
        return
    named = []
    for pod, status in kept:
        namespace, name, ready, word, _, _, address = pod_row(pod, status)
        named.append(f"{namespace}/{name} ({', '.join(filter(None, (f'{ready} {word}', address)))})")
    say(f"{'Not removed' if ending else 'Kept'}: {', '.join(named)}")
    each = _delete_commands(settings, [pod for pod, _ in kept])
    commands = " and ".join(f"`{command}`" for command in each)
    removes, goes = ("removes", "goes") if len(each) == 1 else ("remove", "go")
    if is_running(settings):
        rest = "The running kubelet goes on with them"
        say(rest if ending else f"{rest}; {commands} {removes} them")
    elif ending:
        say(f"{commands} {goes} on")
    else:
        say(f"{commands} {removes} them; the same command again goes on with them")


def _delete_commands(settings: Settings, pods: "Sequence[V1Pod]") -> list[str]:
    """Return the command lines that end the pods, from any shell: one for each namespace."""
    folders = []
    if "conf_dir" in settings.named:
        folders += ["--conf-dir", str(settings.conf_dir)]
    if "bin_dirs" in settings.named:
        folders += ["--bin-dir", ":".join(map(str, settings.bin_dirs))]
    names: dict[str, list[str]] = {}
    for pod in pods:
        names.setdefault(pod.metadata.namespace, []).append(pod.metadata.name)
    program = settings.open_node().program()
    return [
        f"{program} {shlex.join([*folders, 'delete', *_namespace_option(namespace), *of_it])}"
        for namespace, of_it in names.items()
    ]


def _namespace_option(namespace: str) -> list[str]:
    return [] if namespace == "default" else ["--namespace", namespace]
