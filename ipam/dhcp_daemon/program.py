"""`dhcp daemon`: the flags of the reference's daemon, and one for the folder of the leases."""

import gc
import os
import re
import signal
import sys
import traceback
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Sequence
from contextlib import suppress

from .lease import Limits
from .leases import DaemonOptions, Leases
from .loop import Loop
from .protocol import AWAY_SUFFIX, DEFAULT_SOCKET
from .service import Service, listening_socket
from .store import DATA_DIR

_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_PART = re.compile(r"(\d+\.?\d*|\.\d+)(h|ms|us|µs|ns|m|s)")


def duration(text: str) -> float:
    """Return the seconds of a duration in Go's notation (`1m30s`). Raises ArgumentTypeError."""
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ArgumentTypeError(f'expected a duration such as 10s or 1m30s, got "{text}"')
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def _truth(text: str) -> bool:
    """Return a boolean flag's value in Go's notation. Raises ArgumentTypeError."""
    if text.lower() not in {"1", "t", "true", "0", "f", "false"}:
        raise ArgumentTypeError(f'expected true or false, got "{text}"')
    return text.lower() in {"1", "t", "true"}


def main(arguments: Sequence[str]) -> int:
    """Run the daemon until SIGTERM or SIGINT; return its exit code."""
    gc.enable()  # the launcher of a short process has turned it off
    options = _parser().parse_args(arguments)
    data_dir = options.host_prefix + options.data_dir
    limits = Limits(timeout=options.timeout, resend_max=options.resend_max)
    loop, over = Loop(), []
    leases = Leases(
        DaemonOptions(data_dir, options.host_prefix, limits, options.resend_timeout, options.broadcast), loop, _log
    )
    path = options.host_prefix + (options.socket_path or DEFAULT_SOCKET)
    if options.pidfile and not os.path.isabs(options.pidfile):
        _log(f'-pidfile: expected an absolute path, got "{options.pidfile}"')
        return 1
    bell, ring = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    with open(bell, "rb", buffering=0) as wake:
        signal.set_wakeup_fd(ring, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda number, _: over.append(number))
        loop.watch(wake, lambda: wake.read(64))
        try:
            listening, is_ours = listening_socket(path)
            with suppress(FileNotFoundError):
                os.unlink(path + AWAY_SUFFIX)
            leases.load()
            Service(listening, leases, loop, _log)
            if options.pidfile:
                with open(options.pidfile, "w", encoding="ascii") as file:
                    file.write(str(os.getpid()))
        except (OSError, ValueError) as error:
            _log(str(error))
            return 1
        _log(f"listening at {path}, {len(leases)} attachments have leases")
        while not over:
            try:
                loop.turn()
            except Exception:  # noqa: BLE001 -- a mistake about one pod must not cost the others their leases
                _log(traceback.format_exc())
    # The leases stay: pods run on, and the next daemon renews them.
    _log(f"ends, {len(leases)} attachments have leases")
    with suppress(FileNotFoundError):
        if is_ours:
            os.unlink(path)
        if options.pidfile:
            os.unlink(options.pidfile)
    return 0


def _parser() -> ArgumentParser:
    parser = ArgumentParser(prog="dhcp daemon", description="Keeps the DHCP leases of pods.", allow_abbrev=False)
    paths = {
        "pidfile": ("pidfile", "", "file to write the process ID to; an absolute path"),
        "hostprefix": ("host_prefix", "", "prefix of all paths, if the host's root is elsewhere"),
        "socketpath": ("socket_path", "", f"where to listen [{DEFAULT_SOCKET}]"),
        "datadir": ("data_dir", DATA_DIR, f"folder of the leases [{DATA_DIR}]"),
    }
    for name, (dest, value, text) in paths.items():
        parser.add_argument(f"-{name}", f"--{name}", dest=dest, default=value, help=text)
    times = {
        "timeout": ("timeout", 10.0, "for the answer to one request [10s]"),
        "resendmax": ("resend_max", 62.0, "longest time between two messages [1m2s]"),
        "resendtimeout": ("resend_timeout", 208.0, "for a lease in all [3m28s]"),
    }
    for name, (dest, default, text) in times.items():
        parser.add_argument(f"-{name}", f"--{name}", type=duration, dest=dest, default=default, help=text)
    text = "ask servers to answer by broadcast"
    parser.add_argument("-broadcast", "--broadcast", type=_truth, nargs="?", const=True, default=False, help=text)
    return parser


def _log(text: str) -> None:
    with suppress(OSError):
        os.write(sys.stderr.fileno(), f"cni-dhcp: {text}\n".encode(errors="replace"))
