"""An API server with thousands of Nodes, each as large as those of real clusters."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from tests.api_server import ApiServer, Exchange
from tools.scale.large import address

_NODE_BYTES: Final = 10_000
_PAGE: Final = 100
"""Nodes of a page, as the agent asks for."""


def node(number: int) -> dict[str, Any]:
    """Return a Node of 10 KB, which a kubelet's list of images makes so large."""
    ranges = [f"10.{number >> 8}.{number & 0xFF}.0/24", f"fd00:10:{number:x}::/64"]
    content: dict[str, Any] = {
        "metadata": {"name": f"node-{number}", "resourceVersion": str(number + 1)},
        "spec": {"podCIDR": ranges[0], "podCIDRs": ranges},
        "status": {"addresses": [{"type": "InternalIP", "address": address(number)}], "images": []},
    }
    image = {"names": ["registry.example.com/images/of/this/node@sha256:" + "0" * 64], "sizeBytes": 123456789}
    while len(json.dumps(content)) < _NODE_BYTES:
        content["status"]["images"].append(image)
    return content


@contextmanager
def api_server(count: int) -> Iterator[int]:
    """Serve so many Nodes, for lists in pages and for watches without an event; yield the port."""
    pages = []
    for first in range(0, count, _PAGE):
        following = str(first + _PAGE) if first + _PAGE < count else ""
        metadata = {"resourceVersion": str(count + 1)} | ({"continue": following} if following else {})
        items = [node(number) for number in range(first, min(first + _PAGE, count))]
        pages.append(json.dumps({"kind": "NodeList", "metadata": metadata, "items": items}).encode())

    def answer(exchange: Exchange) -> None:
        if "watch" in exchange.request.query:
            exchange.hang()
        else:
            exchange.answer(pages[int(exchange.request.query.get("continue") or 0) // _PAGE])

    with ApiServer(*[answer] * (len(pages) + 10)).running() as server:
        yield server.server.port
