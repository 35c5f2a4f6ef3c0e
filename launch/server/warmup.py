"""Having everything ready before the first worker is forked: the code loaded, and gone through once."""

import gc
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from fast_stdlib.syscalls import CLONE_NEWNET, mount_nowhere, setns, unshare
from launch import PLUGINS
from launch.installation import modules
from launch.launcher import find_plugin, launcher_bytes
from launch.plugin_list import load, load_modules, resolve
from skel.dispatch import dispatch
from skel.plugin import Context


def warm_up(log: Callable[[str], None], others: Mapping[str, str]) -> None:
    """Load all modules, go through them once, and keep Python from looking at that memory again.

    The collector is off from here on, since a plugin allocates little. Workers call it when they have no work.
    """
    _load_all(log, others)
    try:
        with _pod_on_a_node() as (environ, config):
            _run_once(environ, config, log)
    except OSError as error:
        log(f"no warm-up: {error}")
    gc.collect()
    # A collection writes to each object that it looks at, which would copy the memory that forked workers share.
    gc.freeze()
    gc.disable()


def _load_all(log: Callable[[str], None], others: Mapping[str, str]) -> None:
    """Import every module that a plugin's process might, and the plugins of other distributions (`others`).

    One that cannot be imported costs those verbs that need it, as in a process of their own.
    """
    import subprocess  # noqa: F401 -- our modules import both only when they need them
    import threading  # noqa: F401 -- as above

    load_modules(modules(), log)
    for name, target in others.items():
        try:
            resolve(name, others)
        except (Exception, SystemExit) as error:  # noqa: BLE001 -- as above
            log(f"the plugin {name}, {target}, cannot be imported: {error}")


@contextmanager
def _pod_on_a_node() -> Iterator[tuple[dict[str, str], dict[str, object]]]:
    """Be on a node with a pod: namespaces and files that go with this block, or with this process. Raises OSError.

    Yields the environment of the bridge plugin for the pod, but for CNI_COMMAND, and its configuration.
    """
    with _opened(mount_nowhere("tmpfs")) as root, _pod_namespace() as netns:
        folder = _path_of(root)
        launcher = os.path.join(folder, "host-local")
        with open(launcher, "wb") as file:
            file.write(launcher_bytes(socket=""))
        os.chmod(launcher, 0o700)
        yield (
            {
                "CNI_CONTAINERID": "warm-up",
                "CNI_IFNAME": "eth0",
                "CNI_NETNS": netns,
                "CNI_PATH": folder,
                "PATH": os.defpath,
            },
            {
                "cniVersion": "1.1.0",
                "name": "warm-up",
                "cni.dev/valid-attachments": [],
                "type": "bridge",
                "isDefaultGateway": True,
                "ipMasq": True,
                "ipam": {
                    "type": "host-local",
                    "dataDir": folder,
                    "ranges": [[{"subnet": "192.0.2.0/24"}], [{"subnet": "2001:db8::/64"}]],
                },
            },
        )


def _run_once(environ: Mapping[str, str], config: Mapping[str, object], log: Callable[[str], None]) -> None:
    """Attach a pod and detach it: much of what Python and pyroute2 do, they do at the first use.

    Failures, as on a kernel without bridges, are logged; each worker meets them again.
    """
    for name in PLUGINS:
        dispatch(load(name), {"CNI_COMMAND": "VERSION"}, lambda: b"{}")
    for verb in ("STATUS", "ADD", "CHECK", "DEL", "GC"):
        context = Context(find_plugin=find_plugin)
        outcome = dispatch(load("bridge"), {**environ, "CNI_COMMAND": verb}, json.dumps(config).encode, context)
        context.finish()
        context.open_sockets.close()
        if outcome.code != 0:
            log(f"warm-up, {verb}: {(outcome.stdout + outcome.stderr).decode(errors='replace').strip()}")
        elif verb == "ADD":
            config = {**config, "prevResult": json.loads(outcome.stdout)}


@contextmanager
def _pod_namespace() -> Iterator[str]:
    """Be in a new network namespace, with another for a pod, at the path that this yields; then be back."""
    with _opened(_network()) as own:
        unshare(CLONE_NEWNET)
        try:
            with _opened(_network()) as pod:
                unshare(CLONE_NEWNET)
                yield _path_of(pod)
        finally:
            setns(own, CLONE_NEWNET)


def _network() -> int:
    return os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


@contextmanager
def _opened(fd: int) -> Iterator[int]:
    try:
        yield fd
    finally:
        os.close(fd)


def _path_of(fd: int) -> str:
    """Return a path by which any process opens an open file of this process."""
    return f"/proc/{os.getpid()}/fd/{fd}"
