"""Things of a snapshot, and differences between snapshots, each described in one line."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

_LONGEST: Final = 200
"""Characters of a value."""
_BEFORE_CHANGE: Final = 20
"""Characters that are shown before the first difference of two long values."""

_USUAL: Final[Mapping[str, Mapping[str, object]]] = {
    "link": {"group": "default", "queue length": 1000, "mac": "00:00:00:00:00:00"},
    "address": {"scope": "global"},
    "route": {"protocol": "boot"},
}
"""Values that are left out of a thing's description; changes of them are reported."""

_LINK_REST: Final = ("mac", "alias", "other names", "group", "queue length")
_BRIDGE_DEFAULTS: Final[Mapping[str, object]] = {"vlan_filtering": 0, "stp_state": 0, "mcast_snooping": 1}
_PORT_DEFAULTS: Final[Mapping[str, object]] = {
    "hairpin": False,
    "isolated": False,
    "learning": True,
    "flood": True,
    "mcast_flood": True,
    "bcast_flood": True,
    "neigh_suppress": False,
    "proxy_arp": False,
}


def described_difference(place: str, thing: str, name: str, before: object, after: object) -> str:
    """Return `+`, `-` or `~`, the place, and the thing with its change."""
    if before is None or after is None:
        sign, value = ("+", after) if before is None else ("-", before)
        return f"{sign} {place}: {thing} {_described_thing(thing, name, value)}"
    if isinstance(before, dict) and isinstance(after, dict):
        return f"~ {place}: {thing} {name}: {_changes(before, after)}"
    return f"~ {place}: {thing} {name}: {_change(before, after)}"


def described_things(thing: str, things: Mapping[str, object]) -> Iterator[str]:
    """Yield a line for each thing, with its name and its description; each rule of a chain has a line."""
    for name, value in things.items():
        if isinstance(value, list):
            yield from (f"{name}: {text}" for text in value)
        else:
            yield _described_thing(thing, name, value)


def _described_thing(thing: str, name: str, value: object) -> str:
    if not isinstance(value, dict):
        return f"{name} = {_plain(value)}"
    if thing == "link":
        words = _link(value)
    elif thing == "file":
        return _file(name, value)
    else:
        words = _attributes(thing, value)
    return f"{name} ({', '.join(words)})" if words else name


def _link(link: Mapping[str, Any]) -> list[str]:
    flags = link.get("flags", [])
    words = [str(link.get("kind", "")), f"port of {link['port of']}" if "port of" in link else ""]
    words += ["up" if "UP" in flags else "down", f"mtu {link.get('mtu')}"]
    words += [flag.lower() for flag in flags if flag != "UP"]
    words += [f"peer {link['peer']}"] if "peer" in link else []
    words += _attributes("link", {key: link[key] for key in _LINK_REST if key in link})
    defaults = {"settings": _BRIDGE_DEFAULTS, "as port": _PORT_DEFAULTS}
    for part, usual in defaults.items():
        settings = link.get(part, {})
        # The usual values of other kinds of links are unknown: all values are described.
        known = usual if link.get("kind") == "bridge" or part == "as port" else settings
        changed = [key for key in known if key in settings and settings[key] != usual.get(key)]
        words += [f"{key} {_plain(settings[key])}" for key in changed]
    return [word for word in words if word]


def _file(path: str, described: Mapping[str, object]) -> str:
    kind, mode = described.get("kind", "file"), described.get("mode", "")
    words = [str(kind)] if kind != "file" else [f"{described.get('size')} bytes"]
    words += [f"mode {mode}"] if mode else []
    words += [f"to {described['target']}"] if "target" in described else []
    words += [f"owner {described['owner']}"] if "owner" in described else []
    text = f": {_plain(described['text'])}" if described.get("text") else ""
    return f"{path} ({', '.join(words)}){text}"


def _attributes(thing: str, value: Mapping[str, object]) -> list[str]:
    usual = _USUAL.get(thing, {})
    kept = {key: inner for key, inner in value.items() if key not in usual or usual[key] != inner}
    return [
        key if each is True else f"{key} {_plain(each)}" for key, each in kept.items() if each not in ("", None, [], {})
    ]


def _changes(before: Mapping[str, object], after: Mapping[str, object]) -> str:
    old, new = dict(_flat(before)), dict(_flat(after))
    changed = [key for key in dict.fromkeys([*old, *new]) if old.get(key) != new.get(key)]
    if ("as port" in before) != ("as port" in after):
        # If a link becomes a port, or stops being one, this alone is described.
        changed = [key for key in changed if not key.startswith("as port.")]
    # The text of a file describes it; otherwise only its digest can.
    if "text" in changed:
        changed = [key for key in changed if key not in {"sha256", "size"}]
    return ", ".join(f"{key} {_change(old.get(key), new.get(key))}" for key in changed)


def _change(before: object, after: object) -> str:
    """Return both values; long ones begin shortly before their first difference."""
    texts = [_whole(before), _whole(after)]
    pairs = enumerate(zip(*texts, strict=False))
    start = next((at for at, (one, other) in pairs if one != other), min(map(len, texts))) - _BEFORE_CHANGE
    if start <= 0 or max(map(len, texts)) <= _LONGEST:
        return " -> ".join(map(_cut, texts))
    return " -> ".join(f"...{_cut(text[start:])}" for text in texts)


def _flat(value: Mapping[str, object], above: str = "") -> list[tuple[str, object]]:
    found: list[tuple[str, object]] = []
    for key, inner in value.items():
        found += _flat(inner, f"{above}{key}.") if isinstance(inner, dict) else [(f"{above}{key}", inner)]
    return found


def _plain(value: object) -> str:
    return _cut(_whole(value))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _whole(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list) and all(isinstance(each, str | int) for each in value):
        return " + ".join(map(str, value)) or "none"
    text = str(value) if isinstance(value, str | int | float) else json.dumps(value, ensure_ascii=False)
    if text.endswith("\n\n"):
        text = text.rstrip("\n") + "\n"  # host-local fills its index up with newlines
    # In one line, whatever is in a file.
    if not text.isprintable() or not text:
        text = json.dumps(text, ensure_ascii=False)
    return text
