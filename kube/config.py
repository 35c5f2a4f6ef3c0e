"""Where an API server is, and who asks: a kubeconfig file, or the service account of the pod that this process runs in.

https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/ has the keys of the file. Those that this client does not
follow, and that would change whom it talks to, are errors.
"""

import base64
import ipaddress
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from kube.errors import ConfigError

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""The files that the kubelet gives to each pod of a service account."""

_PORTS: Final = {"https": 443, "http": 80}
_HIGHEST_PORT: Final = 65535
_REFUSED_OF_CLUSTER: Final = ("proxy-url",)
_REFUSED_OF_USER: Final = ("exec", "auth-provider", "as", "as-uid", "as-groups", "as-user-extra")


class Server(NamedTuple):
    """The address of an API server. `prefix` is the path before `/api`, empty or with a slash at its start."""

    scheme: str
    host: str
    port: int
    prefix: str = ""

    @classmethod
    def read(cls, url: str, origin: str) -> "Server":
        """Read a URL; without a scheme it is https. Raises ConfigError that names `origin`."""
        try:
            parts = urlsplit(url if "://" in url else f"https://{url}")
            port = parts.port if parts.port is not None else _PORTS.get(parts.scheme, 0)
        except ValueError:
            raise ConfigError(f'{origin}: "{url}" is not the URL of a server') from None
        further = parts.username or parts.password or parts.query or parts.fragment
        if parts.scheme not in _PORTS or not 0 < port <= _HIGHEST_PORT or not _is_host(parts.hostname or "") or further:
            raise ConfigError(f'{origin}: "{url}" is not the URL of a server (https://HOST:PORT)')
        if not parts.path.isascii() or " " in parts.path:
            raise ConfigError(f'{origin}: the path of "{url}" has characters that a URL cannot have')
        return cls(parts.scheme, parts.hostname or "", port, parts.path.rstrip("/"))

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.prefix}"

    @property
    def authority(self) -> str:
        """The host and the port, as HTTP's header `Host` has them."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Material(NamedTuple):
    """A certificate, a key, a token or a password: its content, or the file that has it, which is read at each use."""

    content: bytes = b""
    path: Path | None = None

    def __repr__(self) -> str:
        return f"Material({self.path or 'hidden'})"

    def read(self) -> bytes:
        """Return the content. Raises ConfigError."""
        if self.path is None:
            return self.content
        try:
            return self.path.read_bytes()
        except OSError as error:
            raise ConfigError(f"{self.path}: {error.strerror}") from None


class ClusterConfig(NamedTuple):
    """A server, and the credentials for it. `ca` None means the certificate authorities of this system."""

    server: Server
    ca: Material | None = None
    verify: bool = True
    """False takes any certificate of the server."""

    server_name: str = ""
    """The name that the server's certificate must have, if it is not the host."""

    certificate: Material | None = None
    key: Material | None = None
    token: Material | None = None
    basic: Material | None = None
    """`user:password` of HTTP's basic authentication."""

    namespace: str = "default"

    def with_server(self, url: str) -> "ClusterConfig":
        """Return the same with the server of the option `--apiserver`. Raises ConfigError."""
        return self._replace(server=Server.read(url, "--apiserver"))


def from_kubeconfig(path: Path, context: str = "") -> ClusterConfig:
    """Read a kubeconfig file; `context` is its current one by default. Raises ConfigError."""
    return _Kubeconfig(path).config(context)


def in_cluster(folder: Path = SERVICE_ACCOUNT, environ: Mapping[str, str] = os.environ) -> ClusterConfig:
    """Return the configuration of a process in a pod: the Service `kubernetes`, and the service account's files.

    Raises ConfigError outside of a pod.
    """
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise ConfigError("not in a pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set")
    token = Material(path=folder / "token")
    token.read()
    namespace = folder / "namespace"
    authority = f"[{host}]:{port}" if _is_ipv6(host) else f"{host}:{port}"
    return ClusterConfig(
        Server.read(f"https://{authority}", "KUBERNETES_SERVICE_HOST"),
        ca=Material(path=folder / "ca.crt"),
        token=token,
        namespace=namespace.read_text().strip() if namespace.exists() else "default",
    )


def _is_host(host: str) -> bool:
    """Tell whether a name can be looked up."""
    try:
        return bool(host and host.encode("idna"))
    except UnicodeError:
        return False


def _is_ipv6(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).version == 6  # noqa: PLR2004 -- the version's number
    except ValueError:
        return False


class _Kubeconfig:
    """The content of a kubeconfig file; each error names the file and the key."""

    def __init__(self, path: Path) -> None:
        from api.documents import ManifestError, read_documents

        self._path = path
        try:
            documents = list(read_documents(path.read_bytes()))
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}") from None
        except ManifestError as error:
            raise ConfigError(f"{path}: {error}") from None
        if len(documents) != 1 or not isinstance(documents[0], dict) or documents[0].get("kind") != "Config":
            raise ConfigError(f"{path}: not a kubeconfig: one document of kind Config is expected")
        self._content = documents[0]

    def config(self, name: str) -> ClusterConfig:
        name = name or self._text(self._content, "current-context", "")
        if not name:
            raise ConfigError(f"{self._path}: current-context is not set")
        context = self._named("contexts", "context", name)
        at = f"contexts.{name}"
        cluster_name, user_name = self._text(context, "cluster", at), self._text(context, "user", at)
        cluster = self._named("clusters", "cluster", cluster_name)
        user = self._named("users", "user", user_name) if user_name else {}
        at_cluster, at_user = f"clusters.{cluster_name}", f"users.{user_name}"
        self._refuse(cluster, _REFUSED_OF_CLUSTER, at_cluster)
        self._refuse(user, _REFUSED_OF_USER, at_user)
        server = self._text(cluster, "server", at_cluster)
        verify = cluster.get("insecure-skip-tls-verify") is not True
        return ClusterConfig(
            Server.read(server, f"{self._path}: {at_cluster}.server"),
            ca=self._material(cluster, "certificate-authority", at_cluster),
            verify=verify,
            server_name=self._text(cluster, "tls-server-name", at_cluster),
            certificate=self._material(user, "client-certificate", at_user),
            key=self._material(user, "client-key", at_user),
            token=self._token(user, at_user),
            basic=self._basic(user, at_user),
            namespace=self._text(context, "namespace", at) or "default",
        )

    def _named(self, plural: str, singular: str, name: str) -> dict[str, Any]:
        """Return the object of this name in one of the file's lists."""
        items = self._content.get(plural)
        for item in items if isinstance(items, list) else []:
            if isinstance(item, dict) and item.get("name") == name and isinstance(item.get(singular), dict):
                found: dict[str, Any] = item[singular]
                return found
        raise ConfigError(f'{self._path}: {plural} has no "{name}"')

    def _text(self, values: Mapping[str, Any], key: str, at: str) -> str:
        value = values.get(key)
        if value is not None and not isinstance(value, str):
            raise ConfigError(f"{self._path}: {f'{at}.' if at else ''}{key}: expected a string, not {value!r}")
        return value or ""

    def _refuse(self, values: Mapping[str, Any], keys: tuple[str, ...], at: str) -> None:
        for key in keys:
            if values.get(key):
                raise ConfigError(f"{self._path}: {at}.{key} is not supported")

    def _material(self, values: Mapping[str, Any], key: str, at: str) -> Material | None:
        """Return the content of KEY-data, or the file at KEY, relative to the kubeconfig."""
        if encoded := self._text(values, f"{key}-data", at):
            try:
                return Material(base64.b64decode(encoded, validate=True))
            except ValueError:
                raise ConfigError(f"{self._path}: {at}.{key}-data is not base64") from None
        return self._file(values, key, at)

    def _file(self, values: Mapping[str, Any], key: str, at: str) -> Material | None:
        path = self._text(values, key, at)
        return Material(path=self._path.parent / path) if path else None

    def _token(self, user: Mapping[str, Any], at: str) -> Material | None:
        """Return the token: of its file, if both are there, as client-go takes it."""
        if file := self._file(user, "tokenFile", at):
            return file
        token = self._text(user, "token", at)
        return Material(token.encode()) if token else None

    def _basic(self, user: Mapping[str, Any], at: str) -> Material | None:
        name, password = self._text(user, "username", at), self._text(user, "password", at)
        return Material(f"{name}:{password}".encode()) if name or password else None
