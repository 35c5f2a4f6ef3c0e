"""Requests of the client of the Kubernetes API, against a server that answers in every bad way."""

import socket
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

from kube.backoff import Backoff
from kube.client import APPLY_PATCH, NODES, PODS, Client, Selection
from kube.config import Material
from kube.errors import ApiError, ConfigError, ConnectionLostError
from tests.api_server import ApiServer, Exchange, answers, breaks, fails, node, node_list, status
from tests.unit.kube.conftest import Authority, ClientOf, Pauses, Serve


def names(items: list[dict[str, dict[str, str]]]) -> list[str]:
    return [each["metadata"]["name"] for each in items]


def test_a_list_is_read_in_pages(serve: Serve, client_of: ClientOf) -> None:
    server = serve(answers(node_list(7, node("a"), more="next")), answers(node_list(7, node("b"))))

    [first, second] = client_of(server).list_pages(NODES, limit=1)

    assert (names(first.items), names(second.items)) == (["a"], ["b"])
    assert (first.resource_version, second.restarted) == ("7", False)
    assert [each.query for each in server.requests] == [{"limit": "1"}, {"limit": "1", "continue": "next"}]


def test_list_with_an_expired_token_is_read_again_without_duplicates(serve: Serve, client_of: ClientOf) -> None:
    server = serve(
        answers(node_list(7, node("a"), more="old")),
        fails(410, "Expired", "the continue token is too old"),
        answers(node_list(9, node("a"), node("b"))),
    )

    assert names(client_of(server).list_all(NODES)) == ["a", "b"]


def test_list_is_read_without_pages_after_three_expired_tokens(serve: Serve, client_of: ClientOf) -> None:
    broken = (answers(node_list(7, node("a"), more="old")), fails(410, "Expired"))
    server = serve(*broken, *broken, *broken, answers(node_list(9, node("b"))))

    assert names(client_of(server).list_all(NODES)) == ["b"]
    assert server.requests[-1].query == {}


def test_a_selection_becomes_parameters_and_a_path(serve: Serve, client_of: ClientOf) -> None:
    server = serve(answers(node_list(7)))

    client_of(server).list_all(PODS, Selection("team a", "app in (x, y)", "spec.nodeName=n"))

    assert server.requests[0].path == "/api/v1/namespaces/team%20a/pods"
    assert server.requests[0].query["labelSelector"] == "app in (x, y)"
    assert server.requests[0].query["fieldSelector"] == "spec.nodeName=n"


@pytest.mark.parametrize("code", [429, 500, 503, 504])
def test_a_get_is_sent_again_after_growing_pauses(serve: Serve, client_of: ClientOf, pauses: Pauses, code: int) -> None:
    server = serve(fails(code), fails(code), fails(code), answers(node("a")))

    assert client_of(server).get(NODES, "a") == node("a")
    assert len(server.requests) == 4
    assert [0.8 <= pauses[0] <= 1.6, 1.6 <= pauses[1] <= 3.2, 3.2 <= pauses[2] <= 6.4] == [True] * 3


def test_a_get_gives_up_after_five_attempts(serve: Serve, client_of: ClientOf, pauses: Pauses) -> None:
    server = serve(*[fails(503, "ServiceUnavailable", "starting")] * 9)

    with pytest.raises(ApiError, match="503 ServiceUnavailable: starting"):
        client_of(server).get(NODES, "a")

    assert (len(server.requests), len(pauses)) == (5, 4)


@pytest.mark.parametrize("code", [400, 403, 404, 409, 422])
def test_an_error_that_stays_is_raised_at_once(serve: Serve, client_of: ClientOf, pauses: Pauses, code: int) -> None:
    server = serve(fails(code, "Reason", "why"))

    with pytest.raises(ApiError) as raised:
        client_of(server).get(NODES, "a")

    assert (raised.value.code, raised.value.reason, raised.value.message, pauses) == (code, "Reason", "why", [])


def test_the_pause_is_as_long_as_the_server_asks(serve: Serve, client_of: ClientOf, pauses: Pauses) -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=20), usegmt=True)
    server = serve(
        fails(429, headers={"Retry-After": "7"}),
        fails(503, headers={"Retry-After": soon}),
        lambda exchange: exchange.answer(status(429, retryAfterSeconds=12), 429),
        answers(node("a")),
    )

    client_of(server).get(NODES, "a")

    assert [7 <= pauses[0] <= 14, 15 <= pauses[1] <= 40, 12 <= pauses[2] <= 24] == [True] * 3


def test_a_pause_is_never_longer_than_ten_minutes(serve: Serve, client_of: ClientOf, pauses: Pauses) -> None:
    bad_date = "Mon, 01 Jan 2024 00:00:00 +99999999999999999999"
    server = serve(
        fails(429, headers={"Retry-After": "999999999"}),
        fails(429, headers={"Retry-After": bad_date}),
        lambda exchange: exchange.answer(status(429, retryAfterSeconds=10**10), 429),
        answers(node("a")),
    )

    client_of(server).get(NODES, "a")

    assert len(pauses) == 3
    assert max(pauses) <= 600


def test_an_answer_that_leads_elsewhere_is_an_error(serve: Serve, client_of: ClientOf) -> None:
    server = serve(*[lambda exchange: exchange.answer(b"", 302, {"Location": "http://192.0.2.9/"})] * 2)

    with pytest.raises(ApiError, match="302"):
        client_of(server).get(NODES, "a")
    with pytest.raises(ApiError, match="302"):
        client_of(server).watch(NODES, "5")


def test_an_interrupted_client_gives_up_at_once(serve: Serve, client_of: ClientOf, pauses: Pauses) -> None:
    client = client_of(serve())
    client.interrupt()

    with pytest.raises(ConnectionLostError, match="interrupted"):
        client.get(NODES, "a")

    assert pauses == []


def test_a_change_is_sent_again_only_if_the_server_asks_for_it(serve: Serve, client_of: ClientOf) -> None:
    server = serve(fails(429, headers={"Retry-After": "1"}), answers(node("a")), fails(503))

    client_of(server).create(NODES, node("a"))
    with pytest.raises(ApiError, match="503"):
        client_of(server).create(NODES, node("b"))

    assert [each.json()["metadata"]["name"] for each in server.requests] == ["a", "a", "b"]


def test_a_get_without_an_answer_is_sent_again_and_a_change_is_not(serve: Serve, client_of: ClientOf) -> None:
    server = serve(breaks, answers(node("a")), breaks)
    client = client_of(server)

    assert client.get(NODES, "a") == node("a")
    with pytest.raises(ConnectionLostError):
        client.create(NODES, node("a"))

    assert [each.method for each in server.requests] == ["GET", "GET", "POST"]


def test_half_an_answer_is_read_again(serve: Serve, client_of: ClientOf) -> None:
    def half(exchange: Exchange) -> None:
        exchange.send(b'HTTP/1.1 200 OK\r\nContent-Length: 400\r\n\r\n{"metadata":')
        exchange.close()

    server = serve(half, answers(node("a")))

    assert client_of(server).get(NODES, "a") == node("a")


def test_an_answer_that_is_no_json_is_an_error_with_its_text(serve: Serve, client_of: ClientOf) -> None:
    page = b"<html><body>Bad gateway of a proxy</body></html>"
    server = serve(lambda exchange: exchange.answer(page, 404), answers([]), lambda exchange: exchange.answer(page))
    client = client_of(server)

    with pytest.raises(ApiError, match="404: <html><body>Bad gateway of a proxy"):
        client.get(NODES, "a")
    for _ in range(2):
        with pytest.raises(ApiError, match="GET /api/v1/nodes/a: the answer is no JSON object"):
            client.get(NODES, "a")


def test_a_change_goes_through_after_the_server_has_closed_the_idle_connection(
    serve: Serve, client_of: ClientOf
) -> None:
    def closing(exchange: Exchange) -> None:
        exchange.answer(node("a"))
        exchange.close()

    server = serve(closing, answers(node("a")))
    client = client_of(server)
    client.get(NODES, "a")
    wait_for_end(client)

    client.create(NODES, node("a"))

    assert [each.connection for each in server.requests] == [0, 1]


def wait_for_end(client: Client) -> None:
    """Wait until the server's end of the connection has arrived, without reading it."""
    connected = client._connection._socket
    assert connected is not None
    assert connected.recv(1, socket.MSG_PEEK) == b""


def test_one_connection_serves_many_requests(serve: Serve, client_of: ClientOf) -> None:
    server = serve(*[answers(node("a"))] * 3)
    client = client_of(server)

    for _ in range(3):
        client.get(NODES, "a")

    assert {each.connection for each in server.requests} == {0}


def test_a_server_that_says_nothing_is_an_error_in_time(serve: Serve, client_of: ClientOf, pauses: Pauses) -> None:
    server = serve()
    client = client_of(server, timeout=0.2)

    with pytest.raises(ConnectionLostError, match="no answer in time"):
        client.create(NODES, node("a"))


def test_a_server_that_is_not_there_is_an_error_that_names_it(serve: Serve, client_of: ClientOf) -> None:
    server = ApiServer()
    server._listener.shutdown(socket.SHUT_RDWR)  # it listens no more, and keeps its port

    with pytest.raises(ConnectionLostError, match=f"http://127.0.0.1:{server.server.port}: Connection refused"):
        client_of(server).create(NODES, node("a"))
    server._listener.close()


def test_unknown_keys_of_an_object_are_kept(serve: Serve, client_of: ClientOf) -> None:
    given = node("a") | {"keyOfALaterVersion": {"deep": [1, None, 2.5]}}
    server = serve(answers(given), lambda exchange: exchange.answer(exchange.request.json()))
    client = client_of(server)

    read = client.get(NODES, "a")
    read["spec"]["unschedulable"] = True
    written = client.update(NODES, read)

    assert written == given | {"spec": {"unschedulable": True}}
    assert server.requests[1].path == "/api/v1/nodes/a"


def test_requests_have_the_paths_and_types_of_the_api(serve: Serve, client_of: ClientOf) -> None:
    server = serve(*[answers({})] * 4)
    client = client_of(server)

    client.patch(NODES, "a", {"x": 1}, subresource="status")
    client.patch(NODES, "a", {"x": 1}, kind=APPLY_PATCH, query={"fieldManager": "agent"})
    client.delete(PODS, "p", "ns", {"gracePeriodSeconds": 0})
    client.delete(PODS, "p", "ns")

    first, apply, delete, bare = server.requests
    assert (first.method, first.path) == ("PATCH", "/api/v1/nodes/a/status")
    assert first.headers["Content-Type"] == "application/merge-patch+json"
    assert (apply.query, apply.headers["Content-Type"]) == ({"fieldManager": "agent"}, "application/apply-patch+yaml")
    assert (delete.path, delete.json()) == ("/api/v1/namespaces/ns/pods/p", {"gracePeriodSeconds": 0})
    assert bare.body == b""
    assert "Content-Type" not in bare.headers


def test_a_token_file_is_read_at_each_request(serve: Serve, client_of: ClientOf, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")
    server = serve(*[answers({})] * 2)
    server.config = server.config._replace(token=Material(path=file))
    client = client_of(server)

    client.get(NODES, "a")
    file.write_text("second")
    client.get(NODES, "a")

    assert [each.headers["Authorization"] for each in server.requests] == ["Bearer first", "Bearer second"]


def test_a_refused_token_is_read_once_more(serve: Serve, client_of: ClientOf, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old")

    def refuse(exchange: Exchange) -> None:
        file.write_text("new")
        exchange.answer(status(401, "Unauthorized"), 401)

    server = serve(refuse, answers(node("a")), *[fails(401, "Unauthorized", "who?")] * 2)
    server.config = server.config._replace(token=Material(path=file))
    client = client_of(server)

    assert client.get(NODES, "a") == node("a")
    assert server.requests[1].headers["Authorization"] == "Bearer new"
    with pytest.raises(ApiError, match=r"401 Unauthorized: who\?"):
        client.get(NODES, "a")


@pytest.mark.parametrize("token", ["", "two words", "line\nbreak", "ümlaut"])
def test_a_token_that_cannot_stand_in_a_header_is_an_error(
    serve: Serve, client_of: ClientOf, tmp_path: Path, token: str
) -> None:
    file = tmp_path / "token"
    file.write_text(token)
    server = serve()
    server.config = server.config._replace(token=Material(path=file))

    with pytest.raises(ConfigError, match=f"{file}: not a token"):
        client_of(server).get(NODES, "a")

    assert server.requests == []


def test_a_password_is_sent_as_basic_authentication(serve: Serve, client_of: ClientOf) -> None:
    server = serve(answers({}))
    server.config = server.config._replace(basic=Material(b"me:secret"))

    client_of(server).get(NODES, "a")

    assert server.requests[0].headers["Authorization"] == "Basic bWU6c2VjcmV0"
    assert "secret" not in repr(server.config)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_the_server_is_known_by_its_authority(
    serve: Serve, client_of: ClientOf, authority: Authority, host: str
) -> None:
    server = serve(answers(node("a")), tls=authority.context(host), host=host)
    server.config = server.config._replace(ca=authority.pem)

    assert client_of(server).get(NODES, "a") == node("a")
    bracketed = f"[{host}]" if ":" in host else host
    assert server.requests[0].headers["Host"] == f"{bracketed}:{server.server.port}"


def test_a_server_of_another_authority_is_refused(serve: Serve, client_of: ClientOf, authority: Authority) -> None:
    server = serve(answers(node("a")), tls=authority.context("127.0.0.1"))
    server.config = server.config._replace(ca=Authority().pem, token=Material(b"secret"))

    with pytest.raises(ConnectionLostError, match="the server's certificate: "):
        client_of(server).create(NODES, node("a"))

    assert server.requests == []


def test_a_server_of_another_authority_is_taken_if_nothing_is_verified(
    serve: Serve, client_of: ClientOf, authority: Authority
) -> None:
    server = serve(answers(node("a")), tls=authority.context("example.org"))
    server.config = server.config._replace(verify=False)

    assert client_of(server).get(NODES, "a") == node("a")


def test_the_certificates_name_may_differ_from_the_host(
    serve: Serve, client_of: ClientOf, authority: Authority
) -> None:
    server = serve(answers(node("a")), tls=authority.context("kubernetes.default"))
    server.config = server.config._replace(ca=authority.pem)

    with pytest.raises(ConnectionLostError, match=r"not valid for '127\.0\.0\.1'"):
        client_of(server).create(NODES, node("a"))
    server.config = server.config._replace(server_name="kubernetes.default")
    assert client_of(server).get(NODES, "a") == node("a")


@pytest.mark.parametrize("files", ["one", "two"])
def test_the_client_shows_its_certificate(serve: Serve, client_of: ClientOf, authority: Authority, files: str) -> None:
    server = serve(answers(node("a")), tls=authority.context("127.0.0.1", asks=True))
    own = authority.authority.issue_cert("system:node:a@example.org")
    key: Material | None
    certificate, key = Material(own.cert_chain_pems[0].bytes()), Material(own.private_key_pem.bytes())
    if files == "one":
        certificate, key = Material(own.private_key_and_cert_chain_pem.bytes()), None
    server.config = server.config._replace(ca=authority.pem, certificate=certificate, key=key)

    assert client_of(server).get(NODES, "a") == node("a")


def test_a_certificate_that_is_none_is_an_error_that_names_its_file(
    serve: Serve, client_of: ClientOf, authority: Authority, tmp_path: Path
) -> None:
    server = serve(tls=authority.context("127.0.0.1"))
    (tmp_path / "ca.crt").write_text("none")
    bad = Material(path=tmp_path / "ca.crt")

    server.config = server.config._replace(ca=bad)
    with pytest.raises(ConfigError, match=r"ca\.crt: no certificates in PEM"):
        client_of(server).get(NODES, "a")
    server.config = server.config._replace(ca=authority.pem, certificate=bad)
    with pytest.raises(ConfigError, match=r"ca\.crt: not a certificate in PEM with its key"):
        client_of(server).get(NODES, "a")


def test_a_certificate_that_is_replaced_is_shown_to_the_next_connection(
    serve: Serve, client_of: ClientOf, authority: Authority, tmp_path: Path
) -> None:
    def close(exchange: Exchange) -> None:
        exchange.answer(node("a"), headers={"Connection": "close"})

    server = serve(close, answers(node("a")), tls=authority.context("127.0.0.1"))
    file = tmp_path / "ca.crt"
    file.write_bytes(authority.pem.content)
    server.config = server.config._replace(ca=Material(path=file))
    client = client_of(server)

    client.get(NODES, "a")
    file.write_bytes(Authority().pem.content)

    with pytest.raises(ConnectionLostError, match="the server's certificate"):
        client.create(NODES, node("a"))


def test_a_request_after_a_closed_connection_uses_tls_again(
    serve: Serve, client_of: ClientOf, authority: Authority
) -> None:
    def close(exchange: Exchange) -> None:
        exchange.answer(node("a"), headers={"Connection": "close"})

    server = serve(close, answers(node("b")), tls=authority.context("127.0.0.1"))
    server.config = server.config._replace(ca=authority.pem)
    client = client_of(server)

    client.get(NODES, "a")

    assert client.get(NODES, "b") == node("b")
    assert [each.connection for each in server.requests] == [0, 1]


def test_pauses_double_up_to_their_limit_and_begin_again() -> None:
    backoff = Backoff(1.0, 4.0)

    pauses = [backoff.next() for _ in range(4)]
    backoff.reset()

    assert [low <= pause <= 2 * low for low, pause in zip((1, 2, 4, 4), pauses, strict=True)] == [True] * 4
    assert backoff.next() <= 2
    assert 20 <= backoff.next(at_least=20) <= 40


def test_a_prefix_of_the_server_comes_before_the_path(serve: Serve, client_of: ClientOf) -> None:
    server = serve(answers({}))
    server.config = server.config._replace(server=server.server._replace(prefix="/k8s/clusters/c-1"))

    client_of(server).get(NODES, "a")

    assert server.requests[0].path == "/k8s/clusters/c-1/api/v1/nodes/a"
