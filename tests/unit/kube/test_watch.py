"""Watches of the client of the Kubernetes API: events in pieces, errors among them, and streams that end too soon."""

import json
import threading
from collections.abc import Callable

import pytest

from kube import client as client_module
from kube.client import NODES, Client, Selection, WatchEvent
from kube.errors import ApiError, ConnectionLostError
from tests.api_server import Answer, Exchange, answers, fails, node, status
from tests.unit.kube.conftest import ClientOf, Serve


def streams(*steps: Callable[[Exchange], object]) -> Answer:
    """Return an answer in chunks that follows some steps."""

    def answer(exchange: Exchange) -> None:
        exchange.stream()
        for step in steps:
            step(exchange)

    return answer


def event(kind: str, content: object) -> Callable[[Exchange], object]:
    return lambda exchange: exchange.event(kind, content)


def chunk(content: bytes) -> Callable[[Exchange], object]:
    return lambda exchange: exchange.chunk(content)


def line(kind: str, content: object) -> bytes:
    return json.dumps({"type": kind, "object": content}, ensure_ascii=False).encode() + b"\n"


def collected(client: Client, into: list[WatchEvent]) -> list[WatchEvent]:
    for each in client.watch(NODES, "5"):
        into.append(each)  # noqa: PERF402 -- an error ends the watch, and these stay
    return into


def test_a_watch_begins_at_a_version_and_ends_with_the_stream(serve: Serve, client_of: ClientOf) -> None:
    server = serve(streams(event("ADDED", node("a", 6)), event("BOOKMARK", node("", 9)), Exchange.end))

    events = list(client_of(server).watch(NODES, "5", Selection(labels="x=y")))

    assert events == [("ADDED", node("a", 6)), ("BOOKMARK", node("", 9))]
    asked = dict(server.requests[0].query)
    assert 240 <= int(asked.pop("timeoutSeconds")) <= 480
    assert asked == {"watch": "1", "resourceVersion": "5", "allowWatchBookmarks": "true", "labelSelector": "x=y"}


@pytest.mark.parametrize("size", [1, 2, 7, 64])
def test_events_may_come_in_pieces_of_any_size(serve: Serve, client_of: ClientOf, size: int) -> None:
    given = [("ADDED", node("a", 6, zone="Zürich 山")), ("MODIFIED", node("a", 7)), ("DELETED", node("a", 8))]
    content = b"\n".join(line(*each) for each in given)
    pieces = [content[at : at + size] for at in range(0, len(content), size)]
    server = serve(streams(*map(chunk, pieces), Exchange.end))

    assert list(client_of(server).watch(NODES, "5")) == given


def test_an_error_event_is_raised_after_the_events_before_it(serve: Serve, client_of: ClientOf) -> None:
    server = serve(streams(event("ADDED", node("a", 6)), event("ERROR", status(410, "Expired", "too old"))))
    seen: list[WatchEvent] = []

    with pytest.raises(ApiError, match="410 Expired: too old") as raised:
        collected(client_of(server), seen)

    assert raised.value.is_expired
    assert [each.type for each in seen] == ["ADDED"]


def test_a_watch_that_is_refused_raises_at_once(serve: Serve, client_of: ClientOf) -> None:
    server = serve(fails(410, "Gone", "too old"))

    with pytest.raises(ApiError, match="410 Gone"):
        client_of(server).watch(NODES, "5")


@pytest.mark.parametrize("rest", [b'{"type":"ADDED","obj', line("ADDED", node("b", 7))[:-1]])
def test_half_an_event_at_the_end_is_a_lost_connection(serve: Serve, client_of: ClientOf, rest: bytes) -> None:
    server = serve(streams(event("ADDED", node("a", 6)), chunk(rest), Exchange.end))
    seen: list[WatchEvent] = []

    with pytest.raises(ConnectionLostError, match="in the middle of an event"):
        collected(client_of(server), seen)

    assert len(seen) == 1


def test_a_connection_that_breaks_within_a_chunk_is_lost(serve: Serve, client_of: ClientOf) -> None:
    server = serve(streams(event("ADDED", node("a", 6)), lambda exchange: exchange.send(b"ff\r\n{"), Exchange.close))

    with pytest.raises(ConnectionLostError):
        collected(client_of(server), [])


@pytest.mark.parametrize(
    "bad",
    [
        *(b"no JSON", b"[]", b'{"type":"ADDED"}', b'{"type":"ADDED","object":"text"}', b'{"type":[],"object":{}}'),
        b'{"type":"ADDED","object":{"metadata":"text"}}',
    ],
)
def test_a_line_that_is_no_event_is_a_lost_connection(serve: Serve, client_of: ClientOf, bad: bytes) -> None:
    server = serve(streams(chunk(bad + b"\n"), Exchange.end))

    with pytest.raises(ConnectionLostError, match="a malformed event"):
        collected(client_of(server), [])


def test_an_endless_line_is_a_lost_connection(
    serve: Serve, client_of: ClientOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "_LONGEST_LINE", 1 << 16)
    server = serve(streams(*[chunk(b"x" * 4096)] * 64, Exchange.hang))

    with pytest.raises(ConnectionLostError, match="an event of more than 65536 bytes"):
        collected(client_of(server), [])


def test_a_server_that_does_not_end_a_watch_in_time_has_hung(
    serve: Serve, client_of: ClientOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "_WATCH_SECONDS", (0, 0))
    server = serve(streams(event("ADDED", node("a", 6)), Exchange.hang))
    seen: list[WatchEvent] = []

    client = client_of(server)
    events = client.watch(NODES, "5")
    seen.append(next(events))
    client._connection.wait_longer(-4.9)

    with pytest.raises(ConnectionLostError, match="no answer in time"):
        seen.extend(events)

    assert len(seen) == 1


def test_a_silent_watch_may_last_longer_than_the_limit_of_a_request(serve: Serve, client_of: ClientOf) -> None:
    late = threading.Event()
    server = serve(
        streams(lambda _: late.wait(1.2), event("ADDED", node("a", 6)), Exchange.end),
    )

    assert len(list(client_of(server, timeout=1.0).watch(NODES, "5"))) == 1


@pytest.mark.parametrize("is_begun", [True, False])
def test_a_request_after_a_watch_that_was_left_gets_its_own_answer(
    serve: Serve, client_of: ClientOf, *, is_begun: bool
) -> None:
    server = serve(
        streams(event("ADDED", node("a", 6)), event("ADDED", node("b", 7)), Exchange.end), answers(node("c"))
    )
    client = client_of(server)

    events = client.watch(NODES, "5")
    if is_begun:
        next(events)
    events.close()

    assert client.create(NODES, node("c")) == node("c")


def test_another_thread_ends_a_watch(serve: Serve, client_of: ClientOf) -> None:
    server = serve(streams(event("ADDED", node("a", 6)), Exchange.hang))
    client = client_of(server, timeout=30)
    events = client.watch(NODES, "5")
    next(events)
    threading.Timer(0.1, client.interrupt).start()

    with pytest.raises(ConnectionLostError):
        next(events)
    with pytest.raises(ConnectionLostError, match="interrupted"):
        client.create(NODES, node("b"))
