"""Kubeconfig files and service accounts: which server is asked, and with which credentials."""

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from kube.config import ClusterConfig, Material, Server, from_kubeconfig, in_cluster
from kube.errors import ConfigError


def kubeconfig(folder: Path, cluster: object = None, user: object = None, **changes: Any) -> Path:
    """Write a file with one cluster and one user."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": cluster or {"server": "https://192.0.2.1:6443"}}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "one", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "one",
    }
    path = folder / "config"
    path.write_text(yaml.safe_dump(content | changes))
    return path


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_content_in_the_file_is_taken_before_files(tmp_path: Path) -> None:
    cluster = {
        "server": "https://example.org:6443/prefix/",
        "certificate-authority-data": encoded("ca"),
        "certificate-authority": "ca.crt",
        "tls-server-name": "kubernetes",
    }
    user = {"client-certificate-data": encoded("certificate"), "client-key-data": encoded("key"), "token": "secret"}

    config = from_kubeconfig(kubeconfig(tmp_path, cluster, user))

    assert config == ClusterConfig(
        Server("https", "example.org", 6443, "/prefix"),
        ca=Material(b"ca"),
        server_name="kubernetes",
        certificate=Material(b"certificate"),
        key=Material(b"key"),
        token=Material(b"secret"),
    )
    assert "secret" not in repr(config)


def test_files_are_relative_to_the_kubeconfig_and_read_at_each_use(tmp_path: Path) -> None:
    user = {"client-certificate": "pki/a.crt", "client-key": "/etc/a.key", "tokenFile": "token", "token": "old"}

    config = from_kubeconfig(kubeconfig(tmp_path, {"server": "h:1", "certificate-authority": "ca.crt"}, user))

    assert config.ca == Material(path=tmp_path / "ca.crt")
    assert config.certificate == Material(path=tmp_path / "pki/a.crt")
    assert config.key == Material(path=Path("/etc/a.key"))
    assert config.token == Material(path=tmp_path / "token")
    (tmp_path / "token").write_text("new")
    assert config.token is not None
    assert config.token.read() == b"new"
    (tmp_path / "token").unlink()
    with pytest.raises(ConfigError, match=r"token: No such file or directory"):
        config.token.read()


def test_a_password_and_no_verification(tmp_path: Path) -> None:
    cluster = {"server": "http://192.0.2.1:8080", "insecure-skip-tls-verify": True}

    config = from_kubeconfig(kubeconfig(tmp_path, cluster, {"username": "me", "password": "pass"}))

    assert (config.server.scheme, config.verify, config.basic) == ("http", False, Material(b"me:pass"))


def test_a_context_may_be_named_and_have_a_namespace_and_no_user(tmp_path: Path) -> None:
    contexts = [{"name": "two", "context": {"cluster": "c", "namespace": "team"}}]
    path = kubeconfig(tmp_path, contexts=contexts)

    assert from_kubeconfig(path, "two").namespace == "team"
    with pytest.raises(ConfigError, match='config: contexts has no "one"'):
        from_kubeconfig(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cluster": {"server": "ftp://h:1"}}, 'clusters.c.server: "ftp://h:1" is not the URL of a server'),
        ({"cluster": {"server": "https://h:99999"}}, 'clusters.c.server: "https://h:99999" is not the URL'),
        ({"cluster": {"server": "https://me@h:1"}}, "is not the URL of a server"),
        ({"cluster": {"server": "https://h:1?a=b"}}, "is not the URL of a server"),
        ({"cluster": {"server": "https://a..b:1"}}, "is not the URL of a server"),
        ({"cluster": {"server": "https://h:1/ü"}}, "has characters that a URL cannot have"),
        ({"cluster": {"server": ""}}, 'clusters.c.server: "" is not the URL of a server'),
        ({"cluster": {"server": 6443}}, "clusters.c.server: expected a string, not 6443"),
        ({"cluster": {"server": "h", "proxy-url": "http://p"}}, "clusters.c.proxy-url is not supported"),
        ({"cluster": {"server": "h", "certificate-authority-data": "§"}}, "authority-data is not base64"),
        ({"user": {"exec": {"command": "aws"}}}, "users.u.exec is not supported"),
        ({"user": {"auth-provider": {"name": "gcp"}}}, "users.u.auth-provider is not supported"),
        ({"user": {"as": "admin"}}, "users.u.as is not supported"),
        ({"user": {"token": 5}}, "users.u.token: expected a string, not 5"),
        ({"current-context": None}, "current-context is not set"),
        ({"current-context": 7}, "config: current-context: expected a string, not 7"),
        ({"clusters": []}, 'clusters has no "c"'),
        ({"users": {}}, 'users has no "u"'),
        ({"kind": "Pod"}, "not a kubeconfig"),
    ],
)
def test_a_kubeconfig_that_cannot_be_followed_is_an_error_that_names_the_key(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    path = kubeconfig(tmp_path, **changes)

    with pytest.raises(ConfigError) as raised:
        from_kubeconfig(path)

    assert str(path) in str(raised.value)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a: [", "not YAML"),
        ("", "one document of kind Config"),
        ("kind: Config\n---\nkind: Config\n", "one document of kind Config"),
        ("[1]", "one document of kind Config"),
        ("kind: Config\nkind: Config\n", 'duplicate field "kind"'),
    ],
)
def test_a_file_that_is_no_kubeconfig_is_an_error(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "config"
    path.write_text(content)

    with pytest.raises(ConfigError, match=message):
        from_kubeconfig(path)


def test_a_kubeconfig_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none: No such file or directory"):
        from_kubeconfig(tmp_path / "none")


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("192.0.2.1:6443", Server("https", "192.0.2.1", 6443)),
        ("https://[2001:db8::1]:6443", Server("https", "2001:db8::1", 6443)),
        ("https://example.org", Server("https", "example.org", 443)),
        ("http://example.org/a/", Server("http", "example.org", 80, "/a")),
    ],
)
def test_the_option_apiserver_replaces_the_server_alone(tmp_path: Path, url: str, server: Server) -> None:
    config = from_kubeconfig(kubeconfig(tmp_path, user={"token": "t"}))

    assert config.with_server(url) == config._replace(server=server)
    with pytest.raises(ConfigError, match='--apiserver: "ftp://h:1" is not the URL of a server'):
        config.with_server("ftp://h:1")


@pytest.mark.parametrize(("host", "shown"), [("10.96.0.1", "10.96.0.1"), ("fd00::1", "[fd00::1]")])
def test_a_pod_finds_its_server_and_its_token(tmp_path: Path, host: str, shown: str) -> None:
    environ = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": "443"}
    (tmp_path / "token").write_text("t")
    (tmp_path / "namespace").write_text("kube-system\n")

    config = in_cluster(tmp_path, environ)

    assert str(config.server) == f"https://{shown}:443"
    assert (config.ca, config.token) == (Material(path=tmp_path / "ca.crt"), Material(path=tmp_path / "token"))
    assert config.namespace == "kube-system"


def test_a_process_outside_of_a_pod_is_told_so(tmp_path: Path) -> None:
    environ = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}

    with pytest.raises(ConfigError, match="not in a pod: KUBERNETES_SERVICE_HOST"):
        in_cluster(tmp_path, {})
    with pytest.raises(ConfigError, match=r"token: No such file"):
        in_cluster(tmp_path, environ)
