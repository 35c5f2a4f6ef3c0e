"""Names of images, normalized as Docker does (distribution/reference, ParseDockerRef)."""

from typing import Final

_DOMAIN: Final = "docker.io"
_FAMILIAR: Final = {"index.docker.io": _DOMAIN}


def normalized(reference: str) -> str:
    """Return `busybox` as `docker.io/library/busybox:latest`; with a digest, the tag is left out."""
    name, at, digest = reference.partition("@")
    first, slash, rest = name.partition("/")
    if not slash or not (set(first) & {".", ":"} or first == "localhost" or first != first.lower()):
        first, rest = _DOMAIN, name
    domain = _FAMILIAR.get(first, first)
    path, colon, tag = rest.rpartition(":")
    if not colon:
        path, tag = rest, "latest"
    if domain == _DOMAIN and "/" not in path:
        path = f"library/{path}"
    return f"{domain}/{path}@{digest}" if at else f"{domain}/{path}:{tag}"
