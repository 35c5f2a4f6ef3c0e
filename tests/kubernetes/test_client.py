"""The client against a real kube-apiserver: every verb, its errors, and a copy of a list that stays true."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kube.backoff import Backoff
from kube.client import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    NODES,
    PODS,
    STRATEGIC_MERGE_PATCH,
    Client,
    Object,
    Resource,
    Selection,
)
from kube.config import Material, from_kubeconfig
from kube.errors import ApiError
from kube.informer import Informer
from tests.kubernetes.control_plane import ControlPlane
from tests.nodes import until

CONFIG_MAPS = Resource("v1", "configmaps")
SERVICE_ACCOUNTS = Resource("v1", "serviceaccounts")


def config_map(name: str, **content: Any) -> Object:
    return {"metadata": {"name": name, "labels": {"app": name[:1]}}, "data": content}


def names(items: list[Object]) -> list[str]:
    return sorted(each["metadata"]["name"] for each in items)


def test_objects_are_made_read_changed_and_deleted(client: Client, namespace: str) -> None:
    made = client.create(CONFIG_MAPS, config_map("a", x="1"), namespace)
    made["data"]["y"] = "2"
    changed = client.update(CONFIG_MAPS, made)

    assert client.get(CONFIG_MAPS, "a", namespace)["data"] == {"x": "1", "y": "2"}
    with pytest.raises(ApiError, match="409 Conflict") as conflict:
        client.update(CONFIG_MAPS, made)
    with pytest.raises(ApiError, match="409 AlreadyExists"):
        client.create(CONFIG_MAPS, config_map("a"), namespace)

    assert changed["metadata"]["resourceVersion"] != made["metadata"]["resourceVersion"]
    assert not conflict.value.is_temporary
    client.delete(CONFIG_MAPS, "a", namespace, {"propagationPolicy": "Background"})
    with pytest.raises(ApiError, match='404 NotFound: configmaps "a" not found'):
        client.get(CONFIG_MAPS, "a", namespace)


def test_an_object_that_breaks_a_rule_is_refused_with_the_servers_words(client: Client, namespace: str) -> None:
    with pytest.raises(ApiError, match=r"422 Invalid: .*metadata\.name") as raised:
        client.create(CONFIG_MAPS, config_map("Not_A_Name"), namespace)

    assert raised.value.code == 422


@pytest.mark.parametrize(
    ("kind", "patch", "query"),
    [
        (MERGE_PATCH, {"data": {"x": None, "y": "2"}}, {}),
        (STRATEGIC_MERGE_PATCH, {"data": {"x": None, "y": "2"}}, {}),
        (
            JSON_PATCH,
            [{"op": "remove", "path": "/data/x"}, {"op": "add", "path": "/data/y", "value": "2"}],
            {},
        ),
    ],
)
def test_an_object_is_patched(client: Client, namespace: str, kind: str, patch: object, query: dict[str, str]) -> None:
    client.create(CONFIG_MAPS, config_map("a", x="1"), namespace)

    client.patch(CONFIG_MAPS, "a", patch, namespace, kind=kind, query=query)

    assert client.get(CONFIG_MAPS, "a", namespace)["data"] == {"y": "2"}


def test_an_object_is_applied_whether_it_exists_or_not(client: Client, namespace: str) -> None:
    for value in ("1", "2"):
        wanted = {"apiVersion": "v1", "kind": "ConfigMap"} | config_map("a", x=value)
        client.patch(CONFIG_MAPS, "a", wanted, namespace, kind=APPLY_PATCH, query={"fieldManager": "test"})

        assert client.get(CONFIG_MAPS, "a", namespace)["data"] == {"x": value}


def test_the_status_of_a_node_is_a_part_of_its_own(client: Client) -> None:
    client.create(NODES, {"metadata": {"name": "status-node"}})
    address = {"type": "InternalIP", "address": "192.0.2.1"}

    client.patch(NODES, "status-node", {"status": {"addresses": [address]}}, subresource="status")

    assert client.get(NODES, "status-node")["status"]["addresses"] == [address]
    client.delete(NODES, "status-node")


def test_a_long_list_comes_in_pages_of_one_version(client: Client, namespace: str) -> None:
    for number in range(23):
        client.create(CONFIG_MAPS, config_map(f"x{number:02}"), namespace)

    pages = list(client.list_pages(CONFIG_MAPS, Selection(namespace, labels="app=x"), 5))

    assert [len(each.items) for each in pages] == [5, 5, 5, 5, 3]
    assert len({each.resource_version for each in pages}) == 1
    assert names([item for page in pages for item in page.items]) == [f"x{number:02}" for number in range(23)]
    assert names(client.list_all(CONFIG_MAPS, Selection(namespace, fields="metadata.name=x07"))) == ["x07"]


def test_a_watch_tells_of_each_change_after_a_version(
    client: Client, control_plane: ControlPlane, namespace: str
) -> None:
    selection = Selection(namespace, labels="app=a")
    [page] = client.list_pages(CONFIG_MAPS, selection)

    with closing(control_plane.client()) as other:
        other.create(CONFIG_MAPS, config_map("a"), namespace)
        other.create(CONFIG_MAPS, config_map("b"), namespace)
        other.patch(CONFIG_MAPS, "a", {"data": {"x": "1"}}, namespace)
        other.delete(CONFIG_MAPS, "a", namespace)
    events = client.watch(CONFIG_MAPS, page.resource_version, selection)
    seen = [next(events) for _ in range(3)]
    events.close()

    assert [(each.type, each.object["metadata"]["name"]) for each in seen] == [
        ("ADDED", "a"),
        ("MODIFIED", "a"),
        ("DELETED", "a"),
    ]


@pytest.fixture
def token(client: Client, namespace: str) -> str:
    """A token of a service account, which may do nothing."""
    client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "agent"}}, namespace)
    request = {"spec": {"expirationSeconds": 3600}}
    made = client.create(SERVICE_ACCOUNTS, request, namespace, "agent", "token")
    return str(made["status"]["token"])


def test_a_service_account_is_known_by_its_token_and_has_its_rights_alone(
    control_plane: ControlPlane, namespace: str, token: str, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text(token)
    path = control_plane.write_kubeconfig("agent", {"tokenFile": str(tmp_path / "token")})
    user = f"system:serviceaccount:{namespace}:agent"

    with closing(Client(from_kubeconfig(path))) as agent, pytest.raises(ApiError) as raised:
        agent.list_all(NODES)

    assert (raised.value.code, raised.value.reason) == (403, "Forbidden")
    assert f'User "{user}" cannot list resource "nodes"' in raised.value.message


def test_a_token_that_is_replaced_is_used_without_a_new_start(
    control_plane: ControlPlane, token: str, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("wrong")
    config = from_kubeconfig(control_plane.admin)._replace(
        certificate=None, key=None, token=Material(path=tmp_path / "token")
    )

    with closing(Client(config)) as agent:
        with pytest.raises(ApiError, match="401 Unauthorized"):
            agent.list_all(NODES)
        (tmp_path / "token").write_text(token)
        with pytest.raises(ApiError, match="403 Forbidden"):
            agent.list_all(NODES)


@pytest.fixture
def informer(control_plane: ControlPlane, namespace: str) -> Iterator[Informer[dict[str, str]]]:
    informer = Informer(
        from_kubeconfig(control_plane.admin),
        CONFIG_MAPS,
        lambda content: dict(content.get("data") or {}),
        Selection(namespace, labels="app=a"),
        page=2,
        backoff=Backoff(0.1, 0.5),
    )
    informer.start()
    yield informer
    informer.stop()


def test_an_informer_follows_changes(client: Client, informer: Informer[dict[str, str]], namespace: str) -> None:
    for number in range(5):
        client.create(CONFIG_MAPS, config_map(f"a{number}", x="1"), namespace)
    until(lambda: len(informer.objects()) == 5, within=30)
    client.patch(CONFIG_MAPS, "a1", {"data": {"x": "2"}}, namespace)
    client.delete(CONFIG_MAPS, "a2", namespace)

    until(lambda: len(informer.objects()) == 4 and informer.objects()[f"{namespace}/a1"] == {"x": "2"}, within=30)


def test_an_informer_reads_the_list_again_when_the_api_server_is_back(
    control_plane: ControlPlane, client: Client, informer: Informer[dict[str, str]], namespace: str
) -> None:
    client.create(CONFIG_MAPS, config_map("a1"), namespace)
    until(lambda: len(informer.objects()) == 1, within=30)
    control_plane.end("kube-controller-manager")
    control_plane.end("kube-apiserver", kill=True)
    until(lambda: "refused" in informer.problem, within=30)
    assert set(informer.objects()) == {f"{namespace}/a1"}

    control_plane.start_api_server()
    control_plane.start_controllers()
    client.create(CONFIG_MAPS, config_map("a2"), namespace)
    client.delete(CONFIG_MAPS, "a1", namespace)

    until(lambda: set(informer.objects()) == {f"{namespace}/a2"}, within=60)
    assert informer.problem == ""
    # The new server has no events of before its start, which the informer needed, too.
    with pytest.raises(ApiError) as raised:
        list(client.watch(PODS, "1"))
    assert (raised.value.is_expired, raised.value.code) == (True, 410)
