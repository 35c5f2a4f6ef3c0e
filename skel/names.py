"""Checks of the names that come from outside, and the parsing of CNI_ARGS.

The characters of container IDs and network names are those of SPEC.md sections 1 and 2;
the rules for interface names are the kernel's (dev_valid_name and
dev_get_valid_name in net/core/dev.c): it puts a number in the place of a
`%d`, and takes no other `%`. libcni checks all but that on the runtime's side.
"""

from lean.typing import Collection

from .errors import CniError, Code

IFNAME_MAX = 15
"""Bytes in an interface name, without the NUL (IFNAMSIZ - 1)."""

# No regular expressions: loading `re` takes 3 ms.
_FIRST = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
_OTHERS = _FIRST | frozenset("_.-")
_RULE = "it must start with a letter or digit, then letters, digits, '_', '.' or '-'"


def check_container_id(container_id: str) -> None:
    """Raise CniError (4) for a container ID that SPEC.md section 2 does not allow."""
    if not _is_name(container_id):
        message = f'CNI_CONTAINERID: invalid characters in container ID "{container_id}"'
        raise CniError(Code.INVALID_ENVIRONMENT, message, _RULE)


def check_network_name(name: str) -> None:
    """Raise CniError (7) for a network name that SPEC.md section 1 does not allow."""
    if not name:
        raise CniError(Code.INVALID_CONFIG, "name: missing network name")
    if not _is_name(name):
        raise CniError(Code.INVALID_CONFIG, f'name: invalid characters in network name "{name}"', _RULE)


def check_ifname(ifname: str) -> None:
    """Raise CniError (4) for an interface name that the kernel would refuse or change."""
    if flaw := ifname_flaw(ifname):
        raise CniError(Code.INVALID_ENVIRONMENT, f'CNI_IFNAME: invalid interface name "{ifname}"', flaw)


def _is_name(text: str) -> bool:
    return text[:1] in _FIRST and _OTHERS.issuperset(text)


def ifname_flaw(ifname: str) -> str:
    """Return why the kernel would refuse or change an interface name, or nothing."""
    try:
        length = len(ifname.encode())
    except UnicodeEncodeError:  # bytes of the environment that are no UTF-8, and half a surrogate pair in JSON
        return "it is not UTF-8"
    if length > IFNAME_MAX:
        return f"it is longer than {IFNAME_MAX} bytes"
    if ifname in {"", ".", ".."}:
        return "it is empty, . or .."
    if any(char in "/:%\0" or char.isspace() for char in ifname):
        return "it contains / or : or % or NUL or white space"
    return ""


def parse_cni_args(text: str) -> dict[str, str]:
    """Return the pairs of CNI_ARGS (`K=V;K=V`, SPEC.md section 2); the last of a repeated key counts.

    Raises CniError (4) that names the pair that is none.
    """
    pairs: dict[str, str] = {}
    for pair in text.split(";") if text else ():
        key, equals, value = pair.partition("=")
        if not key or not equals or "=" in value:
            raise CniError(Code.INVALID_ENVIRONMENT, f'CNI_ARGS: expected K=V;K=V, got the pair "{pair}"')
        pairs[key] = value
    return pairs


def select_cni_args(pairs: dict[str, str], known: Collection[str]) -> dict[str, str]:
    """Return the pairs that a plugin knows; the others need IgnoreUnknown=1 (CONVENTIONS.md, CNI_ARGS).

    Raises CniError (4) that names every unknown key.
    """
    ignore = pairs.get("IgnoreUnknown", "0").lower()
    if ignore not in {"0", "1", "true", "false"}:
        raise CniError(Code.INVALID_ENVIRONMENT, f'CNI_ARGS: IgnoreUnknown: expected a boolean, got "{ignore}"')
    unknown = [key for key in pairs if key not in known and key != "IgnoreUnknown"]
    if unknown and ignore in {"0", "false"}:
        raise CniError(Code.INVALID_ENVIRONMENT, f"CNI_ARGS: unknown arguments: {', '.join(unknown)}")
    return {key: value for key, value in pairs.items() if key in known}
