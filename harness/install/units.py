"""The systemd units of the server and of the DHCP daemon: a socket that always exists, and a process behind it.

The agent's is a service alone.

After an upgrade or a kill, the next launcher starts the server anew. Until then launchers wait in the socket's queue.
After too long a wait they execute their plugin by themselves.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from harness.install.files import Content
from harness.install.packages import CommandError, run
from launch.installation import DEFAULT_SOCKET, command

UNIT_DIR: Final = Path("/etc/systemd/system")

_NAME: Final = "cni-harness"
SOCKET_FOLDERS: Final = (Path("/run/cni-harness"), Path("/run/cni"))
"""Those that systemd makes for the sockets, and leaves."""
_SOCKET: Final = f"{_NAME}.socket"
_SERVICE: Final = f"{_NAME}.service"

_SOCKET_UNIT: Final = """\
[Unit]
Description=Server of the CNI plugins of cni-harness

[Socket]
ListenSequentialPacket={path}
SocketMode=0600
# Messages that wait in the queue then carry the credentials that the server judges.
PassCredentials=yes
DirectoryMode=0755
Backlog=4096
RemoveOnStop=yes

[Install]
WantedBy=sockets.target
"""

# No confinement by systemd: a worker must be able to do everything that a plugin executed by its caller may do.
_SERVICE_UNIT: Final = """\
[Unit]
Description=Server of the CNI plugins of cni-harness
Requires={socket}
After={socket}
# A minute of failures is no upgrade any more. Then the socket goes, too, and launchers do not wait for nothing.
StartLimitIntervalSec=120
StartLimitBurst=50

[Service]
ExecStart={command}
# One that fails, as while its code is being replaced, is started anew for whoever waits: not as fast as it fails.
ExecStopPost=/bin/sh -c '[ "$$SERVICE_RESULT" = success ] || exec sleep 1'
# Those at work finish by themselves, and what plugins have started is theirs.
KillMode=process
TasksMax=infinity
"""


_DHCP_SOCKET: Final = f"{_NAME}-dhcp.socket"
_DHCP_SERVICE: Final = f"{_NAME}-dhcp.service"

_DHCP_SOCKET_UNIT: Final = """\
[Unit]
Description=Socket of the DHCP daemon of the CNI plugins of cni-harness
# The reference's, which has the same path.
Conflicts=cni-dhcp.socket

[Socket]
ListenStream=/run/cni/dhcp.sock
SocketMode=0600
DirectoryMode=0755
Backlog=4096
RemoveOnStop=yes

[Install]
WantedBy=sockets.target
"""

_DHCP_SERVICE_UNIT: Final = """\
[Unit]
Description=DHCP daemon of the CNI plugins of cni-harness
Requires={socket}
After={socket}
StartLimitIntervalSec=0

[Service]
ExecStart={command}
# Leases run out without it.
Restart=always
RestartSec=1
"""

AGENT_SERVICE: Final = f"{_NAME}-agent.service"
PROTOCOLS: Final = Path("/etc/iproute2/rt_protos.d")
"""The folder of ip(8) with names of routes' protocols."""
_PROTOCOL_FILE: Final = f"{_NAME}.conf"

_AGENT_UNIT: Final = """\
[Unit]
Description=Routes and tunnels to the pods of other nodes, by cni-harness
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0

[Service]
ExecStart={command}
# Routes and tunnel stay while it is away.
Restart=always
RestartSec=5

[Install]
WantedBy=multi-user.target
"""


def is_systemd_running() -> bool:
    """Tell whether systemd is this machine's first process (sd_booted(3))."""
    return Path("/run/systemd/system").is_dir()


def are_packaged() -> bool:
    """Tell whether the Debian package of this project brought the units; the package starts and stops the server."""
    return Path("/lib/systemd/system", _SOCKET).exists()


def units(folder: Path, socket: str = DEFAULT_SOCKET, arguments: Sequence[str] | None = None) -> dict[Path, Content]:
    """Return the unit files for `folder`. Raises ValueError for a path that cannot be written in them.

    The command in `arguments` starts the server: by default this installation's.
    """
    service = " ".join(map(_quoted, command("launch.server.server") if arguments is None else arguments))
    files = {
        _SOCKET: _SOCKET_UNIT.format(path=_escaped(socket)),
        _SERVICE: _SERVICE_UNIT.format(socket=_SOCKET, command=service),
    }
    return {folder / name: Content(text.encode(), 0o644) for name, text in files.items()}


def dhcp_units(folder: Path, arguments: Sequence[str] | None = None) -> dict[Path, Content]:
    """Return the unit files of the DHCP daemon for `folder`. Raises ValueError as `units` does.

    The command in `arguments` starts the daemon: by default this installation's.
    """
    service = " ".join(map(_quoted, [*command("launch.daemons"), "dhcp"] if arguments is None else arguments))
    files = {
        _DHCP_SOCKET: _DHCP_SOCKET_UNIT,
        _DHCP_SERVICE: _DHCP_SERVICE_UNIT.format(socket=_DHCP_SOCKET, command=service),
    }
    return {folder / name: Content(text.encode(), 0o644) for name, text in files.items()}


def agent_files(folder: Path, protocols: Path, options: Sequence[str]) -> dict[Path, Content]:
    """Return the agent's unit for `folder`, and the name of its routes' protocol. Raises ValueError as `units` does.

    `options` are those of `cni-harness agent`.
    """
    service = " ".join(map(_quoted, [*command("harness.cli.main"), "agent", *options]))
    return {
        folder / AGENT_SERVICE: Content(_AGENT_UNIT.format(command=service).encode(), 0o644),
        protocols / _PROTOCOL_FILE: Content(f"201 {_NAME}\n".encode(), 0o644),
    }


def enable_agent(*, changed: bool) -> None:
    """Have systemd run the agent from now on, anew if its unit was `changed`. Raises CommandError."""
    run("systemctl", "daemon-reload")
    run("systemctl", "enable", "--now", AGENT_SERVICE)
    if changed:
        run("systemctl", "restart", AGENT_SERVICE)


def enable(*, changed: bool) -> None:
    """Have systemd listen from now on; if any unit was `changed`, stop the running server. Raises CommandError.

    Running requests then finish by themselves, and the next launcher gets a new server. A running DHCP daemon is
    started anew, with all its leases.
    """
    run("systemctl", "daemon-reload")
    with suppress(CommandError):  # systemd does not know the units yet
        run("systemctl", "reset-failed", _SOCKET, _SERVICE)
    run("systemctl", "enable", "--now", _SOCKET)
    if changed:
        run("systemctl", "stop", _SERVICE)
    if (UNIT_DIR / _DHCP_SOCKET).exists():
        run("systemctl", "enable", "--now", _DHCP_SOCKET)
        if changed:
            run("systemctl", "try-restart", _DHCP_SERVICE)


@contextmanager
def disabled(files: Sequence[Path]) -> Iterator[None]:
    """End the server and its socket if systemd runs them from `files`; the block removes these files.

    If a unit's file was removed before, the unit can only still be running. Raises CommandError.
    """
    is_agent = UNIT_DIR / AGENT_SERVICE in files and is_systemd_running()
    if is_agent and (UNIT_DIR / AGENT_SERVICE).exists():
        run("systemctl", "disable", "--now", AGENT_SERVICE)
    known = UNIT_DIR / _SOCKET in files and is_systemd_running()
    if known:
        there = [name for name in (_SOCKET, _SERVICE, _DHCP_SOCKET, _DHCP_SERVICE) if (UNIT_DIR / name).exists()]
        for name in (_SOCKET, _SERVICE):
            if name not in there:
                with suppress(CommandError):  # systemd does not know the unit any more
                    run("systemctl", "stop", name)
        if there:
            run("systemctl", "disable", "--now", *there)
    yield
    if known or is_agent:
        run("systemctl", "daemon-reload")
    if known:
        for folder in SOCKET_FOLDERS:
            with suppress(OSError):  # it is gone, or another program's files are in it
                folder.rmdir()


def _quoted(argument: str) -> str:
    """Return an argument in the syntax of systemd.service(5); variables and specifiers are escaped."""
    escaped = argument.replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$")
    return f'"{_escaped(escaped)}"'


def _escaped(text: str) -> str:
    if not text.isprintable():
        raise ValueError(f"{text!r} cannot stand in a unit of systemd")
    return text.replace("%", "%%")
