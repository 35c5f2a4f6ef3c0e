"""Having everything ready before the first worker is forked: the code loaded, and gone through once."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module

from .dispatch import dispatch
from .installation import PACKAGES, ROOT
from .launcher import launcher_bytes
from .suite import PLUGINS, load
from .syscalls import CLONE_NEWNET, setns, unshare

__all__ = ["load_all", "rehearse"]

_LATER = ("subprocess", "threading", "tempfile")
"""What our modules import only when they need it."""


def load_all(log: Callable[[str], None]) -> None:
    """Import every module that a plugin's process might.

    One that cannot be imported costs those verbs that need it, as in a process of their own.
    """
    for package in PACKAGES:
        for file in sorted(os.listdir(os.path.join(ROOT, package))):
            name, extension = os.path.splitext(file)
            if extension == ".py" and not name.startswith("__"):
                try:
                    import_module(f"{package}.{name}")
                except Exception as error:  # noqa: BLE001 -- whatever half an installation raises
                    log(f"{package}.{name} cannot be imported: {error}")
    for module in _LATER:
        import_module(module)


def rehearse(log: Callable[[str], None]) -> None:
    """Attach a pod and detach it, in network namespaces that go with their last file descriptor.

    Much of what Python and pyroute2 do is done at the first use. Where it fails, as on a kernel without bridges, it
    is done by the workers instead: each anew.
    """
    try:
        _rehearse(log)
    except OSError as error:
        log(f"no rehearsal: {error}")
    _wait_for_threads()


def _rehearse(log: Callable[[str], None]) -> None:
    from tempfile import TemporaryDirectory

    for name in PLUGINS:
        dispatch(load(name), {"CNI_COMMAND": "VERSION"}, lambda: b"{}")
    with TemporaryDirectory(prefix="cni-harness-rehearsal-") as folder, _pod_on_a_node() as netns:
        launcher = os.path.join(folder, "host-local")
        with open(launcher, "wb") as file:
            file.write(launcher_bytes(socket=""))
        os.chmod(launcher, 0o700)
        config = {
            "cniVersion": "1.1.0",
            "name": "rehearsal",
            "cni.dev/valid-attachments": [],
            "type": "bridge",
            "isDefaultGateway": True,
            "ipMasq": True,
            "ipam": {
                "type": "host-local",
                "dataDir": folder,
                "ranges": [[{"subnet": "192.0.2.0/24"}], [{"subnet": "2001:db8::/64"}]],
            },
        }
        environ = {"CNI_CONTAINERID": "rehearsal", "CNI_IFNAME": "eth0", "CNI_NETNS": netns, "CNI_PATH": folder}
        for verb in ("STATUS", "ADD", "CHECK", "DEL", "GC"):
            outcome = dispatch(load("bridge"), {**environ, "CNI_COMMAND": verb}, json.dumps(config).encode)
            if outcome.code != 0:
                log(f"rehearsing {verb}: {(outcome.stdout + outcome.stderr).decode(errors='replace').strip()}")
            elif verb == "ADD":
                config["prevResult"] = json.loads(outcome.stdout)


def _wait_for_threads() -> None:
    """Wait for what the rehearsal left to be done in the background: a process with one thread is safe to fork."""
    import threading

    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join()


@contextmanager
def _pod_on_a_node() -> Iterator[str]:
    """Be in a new network namespace, with another for a pod, at the path that this yields; then be back."""
    with _network() as home:
        unshare(CLONE_NEWNET)
        try:
            with _network() as pod:
                unshare(CLONE_NEWNET)
                yield f"/proc/self/fd/{pod}"
        finally:
            setns(home, CLONE_NEWNET)


@contextmanager
def _network() -> Iterator[int]:
    fd = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)
