"""The informer's copy of a list: true after every kind of loss, quiet if nothing has changed."""

import select
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, Protocol

import pytest

from kube import client as client_module
from kube.backoff import Backoff
from kube.client import NODES, Object
from kube.informer import Informer
from tests.api_server import ApiServer, Exchange, answers, breaks, fails, node, node_list, status
from tests.nodes import until
from tests.unit.kube.conftest import Serve
from tests.unit.kube.test_watch import event, streams


class InformerOf(Protocol):
    """Start an informer of a server's Nodes, which keeps their podCIDR."""

    def __call__(self, server: ApiServer, **options: Any) -> Informer[str]: ...


def pod_cidr(content: Object) -> str:
    return str(content["spec"].get("podCIDR", ""))


@pytest.fixture
def informer_of() -> Iterator[InformerOf]:
    with ExitStack() as stack:

        def start(server: ApiServer, **options: Any) -> Informer[str]:
            given: dict[str, Any] = {"backoff": Backoff(0.01, 0.05), "timeout": 5.0} | options
            informer = Informer(server.config, NODES, pod_cidr, **given)
            informer.start()
            stack.callback(informer.stop)
            return informer

        yield start


def is_woken(informer: Informer[str], seconds: float = 5.0) -> bool:
    return bool(select.select([informer], [], [], seconds)[0])


def change(informer: Informer[str]) -> set[str]:
    """Wait for a change, and return its keys."""
    assert is_woken(informer)
    return informer.take_changes()


def listed(*cidrs: str, version: int = 5) -> Callable[[Exchange], object]:
    """Answer with Nodes a, b, c … that have these ranges."""
    nodes = [node(name, version, podCIDR=cidr) for name, cidr in zip("abcdefgh", cidrs, strict=False)]
    return answers(node_list(version, *nodes))


def test_the_list_is_read_then_watched_from_its_version(serve: Serve, informer_of: InformerOf) -> None:
    server = serve(listed("x", "y"), streams(event("ADDED", node("c", 6, podCIDR="z")), Exchange.hang))

    informer = informer_of(server)

    until(lambda: len(informer.objects()) == 3)
    assert informer.objects() == {"a": "x", "b": "y", "c": "z"}
    assert informer.has_synced
    assert [each.query.get("resourceVersion") for each in server.requests] == [None, "5"]


def test_a_consumer_is_woken_for_an_empty_list(serve: Serve, informer_of: InformerOf) -> None:
    informer = informer_of(serve(listed(), streams(Exchange.hang)))

    assert change(informer) == set()
    assert (informer.has_synced, informer.objects()) == (True, {})


def test_objects_of_namespaces_have_both_names_as_key(serve: Serve) -> None:
    pod = {"metadata": {"name": "p", "namespace": "ns", "resourceVersion": "5"}}
    server = serve(answers(node_list(5, pod)), streams(Exchange.hang))
    informer = Informer(server.config, client_module.PODS, str)
    informer.start()

    assert change(informer) == {"ns/p"}
    informer.stop()


def test_changes_between_two_looks_are_told_once(serve: Serve, informer_of: InformerOf) -> None:
    steps = [event("MODIFIED", node("a", version, podCIDR=f"x{version}")) for version in range(6, 60)]
    informer = informer_of(serve(listed("x"), streams(*steps, event("DELETED", node("a", 60)), Exchange.hang)))
    until(lambda: informer.has_synced and not informer.objects())

    assert informer.take_changes() == {"a"}
    assert not is_woken(informer, 0)
    assert informer.take_changes() == set()


def test_a_change_that_is_not_kept_wakes_no_one(serve: Serve, informer_of: InformerOf) -> None:
    heartbeat = node("a", 6, podCIDR="x") | {"status": {"conditions": [{"lastHeartbeatTime": "now"}]}}
    server = serve(listed("x"), streams(event("MODIFIED", heartbeat), Exchange.end), streams(Exchange.hang))
    informer = informer_of(server)
    change(informer)

    until(lambda: len(server.requests) == 3)

    assert server.requests[2].query["resourceVersion"] == "6"
    assert not is_woken(informer, 0)


def test_doubled_events_and_unknown_objects_change_nothing(serve: Serve, informer_of: InformerOf) -> None:
    doubled = event("ADDED", node("b", 6, podCIDR="y"))
    stream = streams(doubled, doubled, event("DELETED", node("never", 7)), Exchange.end)
    server = serve(listed("x"), stream, streams(Exchange.hang))
    informer = informer_of(server)

    until(lambda: len(server.requests) == 3)

    assert informer.objects() == {"a": "x", "b": "y"}
    assert informer.take_changes() == {"a", "b"}


@pytest.mark.parametrize("end", [Exchange.end, Exchange.close, lambda exchange: exchange.chunk(b'{"type":"ADD')])
def test_a_watch_that_ends_goes_on_from_the_last_version(
    serve: Serve, informer_of: InformerOf, end: Callable[[Exchange], object]
) -> None:
    server = serve(
        listed("x"),
        streams(event("ADDED", node("b", 6, podCIDR="y")), end, Exchange.close),
        streams(event("BOOKMARK", node("", 90)), Exchange.end),
        streams(event("DELETED", node("a", 91)), Exchange.hang),
    )

    informer = informer_of(server)

    until(lambda: informer.objects() == {"b": "y"})
    assert [each.query.get("resourceVersion") for each in server.requests] == [None, "5", "6", "90"]


@pytest.mark.parametrize(
    "expired",
    [
        fails(410, "Expired"),
        streams(event("ERROR", status(410, "Expired", "too old")), Exchange.end),
        fails(504, "Timeout", "Too large resource version: 5, current: 3"),  # after a restored backup
    ],
)
def test_a_version_that_cannot_be_used_means_the_list_again(
    serve: Serve, informer_of: InformerOf, expired: Callable[[Exchange], object]
) -> None:
    # Between the lists b went and c came: no event told of them.
    again = answers(node_list(80, node("a", 5, podCIDR="x"), node("c", 70, podCIDR="z")))
    server = serve(listed("x", "y"), expired, again, streams(Exchange.hang))
    informer = informer_of(server)
    change(informer)

    until(lambda: len(server.requests) == 4)

    assert informer.objects() == {"a": "x", "c": "z"}
    assert informer.take_changes() == {"b", "c"}
    assert informer.problem == ""


def test_a_list_that_begins_again_has_no_objects_of_its_first_try(serve: Serve, informer_of: InformerOf) -> None:
    first = answers(node_list(5, node("a", podCIDR="x"), more="old"))
    informer = informer_of(serve(first, fails(410, "Expired"), answers(node_list(9, node("b", podCIDR="y")))))

    assert change(informer) == {"b"}


def test_a_server_that_is_away_changes_nothing_and_is_told(serve: Serve, informer_of: InformerOf) -> None:
    server = serve(listed("x"), streams(Exchange.end), *[breaks] * 3, *[fails(503, "Unavailable", "starting")] * 2)
    informer = informer_of(server)
    change(informer)

    until(lambda: "starting" in informer.problem)
    assert informer.objects() == {"a": "x"}
    assert change(informer) == set()

    server.then(streams(event("ADDED", node("b", 6, podCIDR="y")), Exchange.hang))
    until(lambda: len(informer.objects()) == 2)
    assert informer.problem == ""


def test_a_list_that_is_forbidden_is_asked_for_until_it_is_allowed(serve: Serve, informer_of: InformerOf) -> None:
    server = serve(*[fails(403, "Forbidden", "nodes is forbidden")] * 3)
    informer = informer_of(server)

    until(lambda: "nodes is forbidden" in informer.problem)
    assert not informer.has_synced

    server.then(listed("x"), streams(Exchange.hang))
    until(lambda: informer.has_synced and informer.problem == "")


def test_a_watch_that_ends_at_once_is_not_asked_for_without_pause(serve: Serve, informer_of: InformerOf) -> None:
    server = serve(listed("x"), *[streams(Exchange.end)] * 500)

    begun = time.monotonic()
    informer_of(server, backoff=Backoff(0.2, 10))
    until(lambda: len(server.requests) >= 4)

    assert time.monotonic() - begun >= 0.6  # pauses of 0.2 and 0.4 seconds between three watches


def test_informer_watches_again_after_a_server_hangs(
    serve: Serve, informer_of: InformerOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "_WATCH_SECONDS", (0, 0))
    server = serve(listed("x"), streams(Exchange.hang), streams(event("DELETED", node("a", 6)), Exchange.hang))

    informer = informer_of(server, timeout=1.0)

    until(lambda: informer.has_synced and not informer.objects())


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"items": []}, "no resourceVersion"),
        (node_list(5, {"metadata": {}}), "without a name"),
        (node_list(5, 5), "is no list of objects"),
        (node_list(5, {"metadata": "text"}), "is no list of objects"),
        ({"metadata": [], "items": {}}, "no resourceVersion"),
        ({"metadata": "text"}, "is no list of objects"),
        (node_list(5, {"metadata": {"name": "a"}, "spec": None}), "nodes: AttributeError"),
    ],
)
def test_a_malformed_list_is_a_problem_until_a_good_one_comes(
    serve: Serve, informer_of: InformerOf, content: object, words: str
) -> None:
    server = serve(*[answers(content)] * 3)
    informer = informer_of(server)

    until(lambda: words in informer.problem)
    assert not informer.has_synced

    server.then(listed("x"), streams(Exchange.hang))
    until(lambda: informer.objects() == {"a": "x"} and informer.problem == "")


def test_the_end_of_an_informer_does_not_wait_for_the_server(serve: Serve) -> None:
    server = serve(listed("x"), streams(Exchange.hang))
    informer = Informer(server.config, NODES, pod_cidr)
    informer.start()
    until(lambda: len(server.requests) == 2)

    informer.stop()

    assert not informer._thread.is_alive()
