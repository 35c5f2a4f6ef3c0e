"""nftables' JSON (libnftables-json(5)) in the words of nft(8), as far as a reader needs them."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

VOLATILE: Final = {"bytes", "expires", "handle", "index", "packets", "used"}


def rule_syntax(rule: Mapping[str, Any]) -> str:
    """Return a rule without counters: `ip saddr 10.1.0.2 masquerade comment "pod1"`."""
    words = " ".join(filter(None, (nft_syntax(expression) for expression in rule.get("expr", []))))
    return f'{words} comment "{rule["comment"]}"' if "comment" in rule else words


def nft_syntax(value: object) -> str:
    """Return an expression or a statement in words; an unknown one as its JSON."""
    if isinstance(value, dict) and len(value) == 1:
        [(name, inner)] = value.items()
        if name in _WORDS:
            return _WORDS[name](inner)
        return name if inner is None else f"{name} {_plain(inner)}"
    if isinstance(value, list):
        return ",".join(nft_syntax(each) for each in value)
    return str(value) if isinstance(value, str | int) else _plain(value)


def element_key(element: object) -> tuple[str, dict[str, object]]:
    """Return an element's key in words, and its other properties: comment, timeout, statements."""
    if isinstance(element, dict) and isinstance(described := element.get("elem"), dict):
        beside = {key: value for key, value in described.items() if key not in {"val", "counter", *VOLATILE}}
        return nft_syntax(described["val"]), beside
    return nft_syntax(element), {}


def _plain(value: object) -> str:
    if isinstance(value, dict):
        return " ".join(f"{key} {nft_syntax(inner)}" for key, inner in value.items() if key not in VOLATILE)
    return json.dumps(value, ensure_ascii=False)


def _match(match: Mapping[str, Any]) -> str:
    # For flags, "in" means at least one of them, and "==" all of them and no other.
    exact = match["op"] == "==" and _are_flags(match["left"])
    operator = f"{match['op']} " if exact or match["op"] not in {"==", "in"} else ""
    return f"{nft_syntax(match['left'])} {operator}{nft_syntax(match['right'])}"


def _are_flags(value: object) -> bool:
    match value:
        case {"&": _} | {"payload": {"field": "flags"}} | {"ct": {"key": "state" | "status"}}:
            return True
        case _:
            return False


def _limit(limit: object) -> str:
    if not isinstance(limit, dict):
        return f"limit {limit}"
    rate = " ".join(str(part) for part in (limit["rate"], limit.get("rate_unit")) if part)
    burst = " ".join(str(part) for part in (limit.get("burst"), limit.get("burst_unit")) if part)
    words = f"limit rate {'over ' if limit.get('inv') else ''}{rate}/{limit['per']}"
    return f"{words} burst {burst}" if burst else words


def _payload(payload: Mapping[str, Any]) -> str:
    if "protocol" in payload:
        return f"{payload['protocol']} {payload['field']}"
    return f"@{payload.get('base')},{payload.get('offset')},{payload.get('len')}"


def _meta(meta: Mapping[str, Any]) -> str:
    key = str(meta["key"])
    bare = {"iif", "oif", "iifname", "oifname", "iifgroup", "oifgroup"}
    return key if key in bare else f"meta {key}"


def _keyed(word: str) -> Callable[[Any], str]:
    return lambda inner: " ".join(
        str(part) for part in (word, inner.get("family"), inner.get("dir"), inner["key"]) if part
    )


def _translation(word: str) -> Callable[[Any], str]:
    def say(inner: Mapping[str, Any] | None) -> str:
        given = inner or {}
        words = [word]
        if "family" in given:
            words.append(str(given["family"]))
        target = nft_syntax(given["addr"]) if "addr" in given else ""
        if "port" in given:
            target += f":{nft_syntax(given['port'])}"
        words += [f"to {target}"] if target else []
        flags = given.get("flags", [])
        return " ".join([*words, nft_syntax(flags)] if flags else words)

    return say


def _set(elements: list[object]) -> str:
    return f"{{ {', '.join(_member(each) for each in elements)} }}"


def _member(element: object) -> str:
    if isinstance(element, list) and len(element) == 2:  # noqa: PLR2004 -- the key and its value
        return f"{element_key(element[0])[0]} : {nft_syntax(element[1])}"
    return element_key(element)[0]


def _binary(operator: str) -> Callable[[Any], str]:
    return lambda sides: f" {operator} ".join(nft_syntax(side) for side in sides)


_WORDS: Final[Mapping[str, Callable[[Any], str]]] = {
    "match": _match,
    "payload": _payload,
    "meta": _meta,
    "ct": _keyed("ct"),
    "rt": _keyed("rt"),
    "exthdr": lambda inner: f"exthdr {_plain(inner)}",
    "counter": lambda inner: f"counter name {inner}" if isinstance(inner, str) else "",
    "prefix": lambda inner: f"{nft_syntax(inner['addr'])}/{inner['len']}",
    "range": lambda inner: f"{nft_syntax(inner[0])}-{nft_syntax(inner[1])}",
    "concat": lambda inner: " . ".join(nft_syntax(each) for each in inner),
    "set": lambda inner: _set(inner) if isinstance(inner, list) else f"set {_plain(inner)}",
    "elem": lambda inner: nft_syntax(inner["val"]),
    "map": lambda inner: f"{nft_syntax(inner['key'])} map {nft_syntax(inner['data'])}",
    "vmap": lambda inner: f"{nft_syntax(inner['key'])} vmap {nft_syntax(inner['data'])}",
    "mangle": lambda inner: f"{nft_syntax(inner['key'])} set {nft_syntax(inner['value'])}",
    "jump": lambda inner: f"jump {inner['target']}",
    "goto": lambda inner: f"goto {inner['target']}",
    "limit": _limit,
    "snat": _translation("snat"),
    "dnat": _translation("dnat"),
    "masquerade": _translation("masquerade"),
    "redirect": _translation("redirect"),
    "&": _binary("&"),
    "|": _binary("|"),
    "^": _binary("^"),
    "<<": _binary("<<"),
    ">>": _binary(">>"),
}
