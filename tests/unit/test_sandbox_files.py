"""The files that the containers of a sandbox share."""

from pathlib import Path

from harness.containerd.sandboxes import make_sandbox_files
from harness.cri.messages import DNSConfig, NamespaceMode, PodSandboxConfig, PodSandboxMetadata


def test_resolver_settings_with_newlines_make_no_line_of_their_own(tmp_path: Path) -> None:
    dns = DNSConfig(
        servers=["192.0.2.1\nnameserver 192.0.2.66"], searches=["a\rb", "c"], options=["ndots:5\noptions x", "edns0"]
    )
    config = PodSandboxConfig(
        metadata=PodSandboxMetadata(name="web", uid="u", namespace="default"), dns_config=dns, ipc=NamespaceMode.NODE
    )

    make_sandbox_files(tmp_path, config, "web")

    lines = (tmp_path / "resolv.conf").read_text().splitlines()
    assert [line.split()[0] for line in lines] == ["search", "nameserver", "options"]
