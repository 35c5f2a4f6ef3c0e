"""The store of pods: bare ones and sandboxes, by name and by ID, for several processes."""

import json
import multiprocessing
from pathlib import Path
from typing import Any

import pytest

from harness.containerd.sandbox_record import SandboxPod, new_sandbox, sandbox_name
from harness.cri.messages import PodSandboxConfig, PodSandboxMetadata
from harness.files import LockHeldError
from harness.runtime.pod_record import Pod, PodNetwork, new_pod
from harness.runtime.pods import PodExistsError, PodRecordError, PodStore
from harness.runtime.sandbox_life import SandboxState

NETWORK = PodNetwork(name="net", ifname="eth0")


def config(name: str = "web", *, namespace: str = "default", uid: str = "u1", attempt: int = 0) -> PodSandboxConfig:
    metadata = PodSandboxMetadata(name=name, uid=uid, namespace=namespace, attempt=attempt)
    return PodSandboxConfig(metadata=metadata, labels={"app": name})


def store(folder: Path) -> PodStore[SandboxPod]:
    return PodStore(folder / "pods", SandboxPod)


def bare(folder: Path, name: str = "web") -> Pod:
    pod = new_pod("default", name, netns="/run/netns/none", bin_dirs=["/opt"], networks=[NETWORK])
    pods = PodStore(folder / "pods", Pod)
    with pods.claimed("default", name):
        pods.write(pod)
    return pod


def keep(folder: Path, of: PodSandboxConfig, state: SandboxState = SandboxState.READY) -> SandboxPod:
    made = new_sandbox(of, [])
    made.state = state
    name = sandbox_name(made)
    with store(folder).reserved(made, lambda known: sandbox_name(known) != name):
        pass
    return made


def test_both_kinds_are_in_one_list(tmp_path: Path) -> None:
    one, other = bare(tmp_path, "bare"), keep(tmp_path, config())

    found = store(tmp_path).all()

    assert [(each.name, each.container_id, each.is_bare) for each in found] == [
        ("bare", one.container_id, True),
        ("web", other.container_id, False),
    ]
    assert store(tmp_path).names() == [("default", "bare")]
    assert found[1].part().config == config()


def test_a_store_of_plain_pods_writes_a_sandbox_back_in_full(tmp_path: Path) -> None:
    made = keep(tmp_path, config())
    plain = PodStore(tmp_path / "pods", Pod)
    [pod] = plain.named("default", "web")
    pod.networks.append(NETWORK)

    with plain.claimed_again(pod):
        plain.write(pod)

    again = store(tmp_path).by_id(made.container_id)
    assert again is not None
    assert again.part() == made.part()
    assert again.networks == [NETWORK]


def test_a_name_is_one_sandboxs_and_no_bare_pods(tmp_path: Path) -> None:
    first = keep(tmp_path, config())

    with pytest.raises(PodExistsError, match=first.container_id):
        keep(tmp_path, config())
    keep(tmp_path, config(attempt=1))
    keep(tmp_path, config(uid="u2"))
    assert len(store(tmp_path).named("default", "web")) == 3
    one = bare(tmp_path, "bare")
    with pytest.raises(PodExistsError, match=one.container_id):
        keep(tmp_path, config("bare"))
    assert len(list((tmp_path / "pods").iterdir())) == 4


def _reserve(folder: Path, answers: Any) -> None:  # a process of its own
    try:
        keep(folder, config())
        answers.put("made")
    except PodExistsError:
        answers.put("refused")


def test_of_many_processes_one_gets_the_name(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    processes = [context.Process(target=_reserve, args=(tmp_path, answers)) for _ in range(6)]
    for each in processes:
        each.start()
    got = sorted(answers.get(timeout=60) for _ in processes)
    for each in processes:
        each.join()

    assert got == ["made", *["refused"] * 5]
    assert len(store(tmp_path).all()) == 1


def test_the_sandbox_in_use_comes_before_ended_ones(tmp_path: Path) -> None:
    keep(tmp_path, config(attempt=0), SandboxState.NOTREADY)
    used = keep(tmp_path, config(attempt=1))
    keep(tmp_path, config(attempt=2), SandboxState.NOTREADY)

    assert store(tmp_path).named("default", "web")[0].container_id == used.container_id


@pytest.mark.parametrize("name", ["a/../b", "UPPER", "x" * 300, "a_b", "é"])
def test_names_that_kubernetes_refuses_have_a_folder(tmp_path: Path, name: str) -> None:
    made = keep(tmp_path, config(name, namespace="sp ace"))

    [folder] = (tmp_path / "pods").iterdir()
    assert folder.parent == tmp_path / "pods"
    assert [each.container_id for each in store(tmp_path).named("sp ace", name)] == [made.container_id]
    assert store(tmp_path).names() == []


def test_a_changed_record_is_read_again(tmp_path: Path) -> None:
    pods = store(tmp_path)
    made = keep(tmp_path, config())
    assert pods.all()[0].state is SandboxState.READY
    again = PodStore(tmp_path / "pods", SandboxPod)
    made.state = SandboxState.NOTREADY
    again.write(made)

    assert pods.all()[0].state is SandboxState.NOTREADY


def test_records_of_gone_pods_are_forgotten(tmp_path: Path) -> None:
    pods = store(tmp_path)
    made = keep(tmp_path, config())
    assert len(pods.all()) == len(pods._read_before) == 1

    with pods.claimed_again(made):
        pods.remove(made)

    assert pods.all() == []
    assert pods._read_before == {}


def test_a_removed_sandbox_leaves_no_folder(tmp_path: Path) -> None:
    made = keep(tmp_path, config())
    pods = store(tmp_path)
    for name in ("hosts", "hostname", "resolv.conf"):
        (pods.path(made) / name).touch()

    with pods.claimed_again(made) as present:
        assert present is not None
        pods.remove(present)

    assert list((tmp_path / "pods").iterdir()) == []
    with pods.claimed_again(made) as present:
        assert present is None


def test_a_folder_without_a_record_is_removed_unless_its_pod_is_being_made(tmp_path: Path) -> None:
    pods = store(tmp_path)
    making = new_sandbox(config(), [])
    left = tmp_path / "pods" / "default_web_0123"
    left.mkdir(parents=True)
    (left / "hosts").touch()
    foreign = tmp_path / "pods" / "default_web_4567"
    foreign.mkdir()
    (foreign / "of another program").touch()

    with pods.reserved(making, lambda _: True):
        (pods.path(making) / "pod.json").unlink()
        pods.remove_leftovers()
        assert pods.path(making).is_dir()

    assert not left.exists()
    assert foreign.exists()


def test_a_sandbox_that_is_being_made_is_not_waited_for(tmp_path: Path) -> None:
    pods = store(tmp_path)
    making = new_sandbox(config(), [])

    with (
        pods.reserved(making, lambda _: True),
        pytest.raises(LockHeldError),
        pods.claimed_again(making, wait=False),
    ):
        pass


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format": 3}, "format 3 is newer than this program, which knows 2"),
        ({"state": "LOST"}, 'state: expected a state of a sandbox, got "LOST"'),
        ({"name": "other"}, "not the record of a pod: it is of pod default/other"),
        ({"sandbox": {"config": 1}}, "not the record of a pod: sandbox.config"),
    ],
)
def test_a_record_that_cannot_be_read_names_its_file(tmp_path: Path, change: dict[str, object], said: str) -> None:
    bare(tmp_path)
    path = tmp_path / "pods" / "default_web" / "pod.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    errors: list[PodRecordError] = []

    found = store(tmp_path).all(on_error=errors.append)

    assert found == []
    assert str(errors[0]).startswith(f"{path}: ")
    assert said in str(errors[0])
    assert "\n" not in str(errors[0])


@pytest.mark.parametrize("node", [".", "nodes/trial"])
def test_a_sandbox_of_format_1_has_the_usual_folders_of_plugins(tmp_path: Path, node: str) -> None:
    former = tmp_path / node / "sandboxes" / "c1" / "sandbox.json"
    former.parent.mkdir(parents=True)
    former.write_text(json.dumps({"id": "c1", "state": "READY", "createdAt": 0, "config": config().encode()}))

    (pod,) = store(tmp_path / node).all()

    assert pod.bin_dirs == ["/opt/cni/bin", str(tmp_path / "bin")]
