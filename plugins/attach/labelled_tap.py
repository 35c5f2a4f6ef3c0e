"""A tap with an SELinux label: the kernel gives a tap the label of the process that makes it.

The label for new sockets (/proc/PID/attr/sockcreate) does not count for taps: see selinux_tun_dev_create in
security/selinux/hooks.c. A process gets a label when it starts, so this one tap is made by ip(8), as the reference
plugin does. The policy must allow the label to run it.
"""

import os
import subprocess

from lean.typing import Mapping
from netlink.namespace import Namespace, entered
from skel import CniError, Code

_LABEL_OF_NEXT_PROGRAM = "/proc/thread-self/attr/exec"
_FOLDERS = "/usr/sbin:/sbin:/usr/bin:/bin"
_TAKEN = "File exists", "Device or resource busy"


def create_labelled_tap(
    name: str,
    namespace: Namespace,
    context: str,
    environ: Mapping[str, str],
    *,
    multi_queue: bool = False,
    owner: int | None = None,
    group: int | None = None,
) -> bool:
    """Make a tap, as netlink.tap.create_tap does, by a process with the SELinux label `context`.

    `environ` is the call's: its PATH has ip(8), or one of the usual folders has.
    Raises CniError: 7 without SELinux or for a label that the policy does not know, 999 if ip(8) fails; and OSError.
    """
    command = ["ip", "tuntap", "add", "mode", "tap", "name", name]
    command += ["user", str(owner)] if owner is not None else []
    command += ["group", str(group)] if group is not None else []
    command += ["multi_queue"] if multi_queue else []
    _label_next_program(context)
    try:
        with entered(namespace):
            ran = subprocess.run(  # noqa: S603 - a fixed name, and arguments made above
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                env={"PATH": f"{environ.get('PATH', '')}:{_FOLDERS}"},
            )
    except FileNotFoundError:
        raise CniError(Code.INTERNAL, 'selinuxContext: the program "ip" is missing, which makes the tap') from None
    finally:
        _label_next_program("")
    if ran.returncode == 0:
        return True
    if any(reason in ran.stderr for reason in _TAKEN):
        return False
    message = f'selinuxContext: "ip tuntap" with the label "{context}" ended with {ran.returncode}'
    raise CniError(Code.INTERNAL, message, " ".join(ran.stderr.split()))


def _label_next_program(context: str) -> None:
    """Set the label of the programs that this thread starts; with "" as the policy says."""
    try:
        fd = os.open(_LABEL_OF_NEXT_PROGRAM, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, context.encode() or b"\n")
        finally:
            os.close(fd)
    except OSError as error:
        message = f'selinuxContext: SELinux does not take the label "{context}": {error.strerror}'
        raise CniError(Code.INVALID_CONFIG, message, "the kernel runs without SELinux, or its policy differs") from None
