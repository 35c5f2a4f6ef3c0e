"""The files that the containers of a sandbox share: hostname, hosts, resolv.conf, and the folder of /dev/shm."""

from contextlib import suppress
from pathlib import Path
from typing import Final

from harness.cri.messages import DNSConfig, NamespaceMode, PodSandboxConfig
from harness.files import write_atomically
from harness.mounts import detach
from harness.runtime.resolv_conf import HOST_RESOLV_CONF, resolver_line
from lean import syscalls

_HOSTS: Final = Path("/etc/hosts")
_SHM_SIZE: Final = "mode=1777,size=67108864"  # 64 MiB, as containerd's


def make_sandbox_files(folder: Path, config: PodSandboxConfig, hostname: str) -> None:
    """Write the files of a sandbox into `folder`, and mount its /dev/shm there. Raises OSError."""
    write_atomically(folder / "hostname", f"{hostname}\n".encode())
    write_atomically(folder / "hosts", _HOSTS.read_bytes() if _HOSTS.exists() else b"")
    write_atomically(folder / "resolv.conf", _resolv_conf(config.dns_config))
    if config.ipc == NamespaceMode.POD:
        shm = folder / "shm"
        shm.mkdir(mode=0o700, exist_ok=True)
        flags = syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC
        syscalls.mount("shm", str(shm), flags, "tmpfs", _SHM_SIZE)
        syscalls.mount("", str(shm), syscalls.MS_PRIVATE)


def remove_sandbox_files(folder: Path) -> None:
    """Unmount /dev/shm; the files go with the folder. Raises OSError."""
    shm = folder / "shm"
    detach(shm)
    with suppress(FileNotFoundError):
        shm.rmdir()


def _resolv_conf(dns: DNSConfig | None) -> bytes:
    """Return the lines in containerd's order; without settings, the node's own file."""
    if dns is None:
        return HOST_RESOLV_CONF.read_bytes() if HOST_RESOLV_CONF.exists() else b""
    lines = [resolver_line("search", dns.searches)] if dns.searches else []
    lines += [resolver_line("nameserver", [server]) for server in dns.servers]
    lines += [resolver_line("options", dns.options)] if dns.options else []
    return "".join(lines).encode()
