"""Pods that cannot be made or taken away as they should, and several hands at one pod."""

import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cli import Cli, bridge_network, waits_for_a_lock
from tests.nodes import HANG, until

pytestmark = pytest.mark.sudo

# Passes on what came before it, except for pods whose name says otherwise.
PICKY = """stdin=$(cat)
case "$CNI_COMMAND:$CNI_ARGS" in
ADD:*K8S_POD_NAME=bad*|DEL:*K8S_POD_NAME=*stuck*)
    echo '{"cniVersion": "1.0.0", "code": 111, "msg": "not this one", "details": "on principle"}'
    exit 1;;
ADD:*) echo '{"cniVersion": "1.0.0", "interfaces": [{"name": "picky0"}]}';;
esac
"""


def with_picky(cli: Cli) -> None:
    cli.plugin("picky", PICKY)
    picky = {"cniVersion": "1.0.0", "name": "picky", "plugins": [{"type": "picky"}]}
    cli.configure(bridge_network("net"), picky)


def test_pod_that_fails_is_taken_back_and_the_others_stay(cli: Cli) -> None:
    with_picky(cli)

    run = cli.run("add", "good1", "bad", "good2", "--network", "net", "--network", "picky", check=False)

    assert run.returncode == 1
    assert run.stderr == (
        "Error: pod default/bad: plugin picky: ADD failed with code 111: not this one; on principle\n"
    )
    pods = cli.pods()
    assert [pod["name"] for pod in pods] == ["good1", "good2"]
    assert len(cli.reservations("net")) == 2
    assert len(cli.ip("link", "show", "master", "net0")) == 2
    assert len(cli.cached_results()) == 4
    assert sorted(path.name for path in (cli.node_dir / "pods").iterdir()) == ["default_good1", "default_good2"]


def test_pod_that_fails_leaves_no_sandbox(cli: Cli) -> None:
    with_picky(cli)
    seen = cli.folder / "netns"
    cli.plugin("picky", f'echo "$CNI_NETNS" > {seen}\n{PICKY}')

    cli.run("add", "bad", "--network", "picky", check=False)

    netns = seen.read_text().strip()
    assert netns.startswith("/run/netns/cni-")
    assert not Path(netns).exists()


def test_network_that_was_never_tried_is_not_deleted(own_cli: Cli) -> None:
    called = own_cli.folder / "called"
    own_cli.plugin("witness", f'cat > /dev/null; echo "$CNI_COMMAND" >> {called}')
    own_cli.plugin("picky", PICKY)
    lists = ({"cniVersion": "1.0.0", "name": name, "plugins": [{"type": name}]} for name in ("picky", "witness"))
    own_cli.configure(*lists)

    own_cli.run("add", "bad", "--network", "picky", "--network", "witness", check=False)

    assert not called.exists()
    assert own_cli.pods() == []


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_delete_goes_on_past_errors_and_can_be_repeated(cli: Cli) -> None:
    with_picky(cli)
    (pod,) = cli.add("stuck", "--network", "net", "--network", "picky")

    first = cli.run("del", "stuck", check=False)

    assert first.returncode == 1
    assert "network picky: plugin picky: DEL failed with code 111: not this one" in first.stderr
    assert cli.reservations("net") == set()
    assert not Path(pod["netns"]).exists()
    (left,) = cli.pods()
    assert left["state"] == "incomplete"
    assert [network["name"] for network in left["networks"]] == ["picky"]
    cli.plugin("picky", "cat > /dev/null")
    cli.run("del", "stuck")
    assert cli.pods() == []


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
@pytest.mark.parametrize(
    ("name", "namespace"),
    [("pod1/..", "default"), ("pod1/../../victim", "default"), ("victim", "default_pod1/../../some")],
)
def test_name_that_leads_elsewhere_is_refused_and_nothing_is_deleted(
    make_cli: Callable[[Path], Cli], direct_bin_dir: Path, name: str, namespace: str
) -> None:
    cli = make_cli(direct_bin_dir)
    cli.configure({"cniVersion": "1.0.0", "name": "net", "plugins": [{"type": "noop"}]})
    before = cli.add("pod1", "pod2")
    victim = (cli.node_dir / "pods" / f"{namespace}_{name}").resolve()
    victim.mkdir(exist_ok=True)
    (victim / "precious").write_text("kept")

    refused = cli.run("del", "pod1", name, "--namespace", namespace, check=False)

    assert refused.returncode == 1
    assert refused.stderr.startswith(f"Error: {'pod name' if namespace == 'default' else 'namespace'} '")
    assert refused.stderr.count("\n") == 1
    assert (victim / "precious").read_text() == "kept"
    assert [pod["containerID"] for pod in cli.pods()] == [pod["containerID"] for pod in before]
    assert all(Path(pod["netns"]).exists() for pod in before)


@pytest.mark.mostly_slow(3, "a long table; a part is in make test")
@pytest.mark.parametrize("verb", [["check"], ["exec", "--", "true"], ["inspect"], ["snapshot", "--pod"]])
def test_pod_name_with_a_path_is_refused_by_each_verb(
    make_cli: Callable[[Path], Cli], direct_bin_dir: Path, verb: list[str]
) -> None:
    cli = make_cli(direct_bin_dir)
    cli.configure({"cniVersion": "1.0.0", "name": "net", "plugins": [{"type": "noop"}]})
    cli.add("pod1")
    verb.insert(1 if "--" in verb else len(verb), "x/../default_pod1")

    refused = cli.run(*verb, check=False)

    # `exec` takes kubectl's form pod/POD, too.
    of_form = "'x/../default_pod1': wanted the name of a pod" if "exec" in verb else ""
    told = of_form or "pod name 'x/../default_pod1': wanted lower-case letters"
    assert (refused.returncode, told in refused.stderr) == (2 if of_form else 1, True), refused.stderr
    assert [path.name for path in (cli.node_dir / "pods").iterdir()] == ["default_pod1"]


def test_file_that_is_not_ours_in_a_pods_folder_stays(own_cli: Cli) -> None:
    own_cli.configure({"cniVersion": "1.0.0", "name": "net", "plugins": [{"type": "noop"}]})
    own_cli.add("pod1")
    folder = own_cli.node_dir / "pods" / "default_pod1"
    (folder / "notes").mkdir()
    (folder / "notes" / "mine").write_text("kept")
    for name in ("pod.json", "resolv.conf"):  # of a crash, where the file system has no files without a name
        (folder / f".{name}.01234567.tmp").touch()

    own_cli.run("del", "pod1")

    assert own_cli.pods() == []
    assert [str(path.relative_to(folder)) for path in sorted(folder.rglob("*"))] == ["notes", "notes/mine"]


def test_delete_by_force_forgets_a_pod_after_a_failed_del(cli: Cli) -> None:
    with_picky(cli)
    cli.add("stuck", "--network", "picky")

    failed = cli.run("del", "stuck", check=False)
    forced = cli.run("del", "stuck", "--force", check=False)

    assert "; `cni-harness del` can be repeated; with --force it forgets the pod\n" in failed.stderr
    assert "--force" not in forced.stderr

    assert (forced.returncode, cli.pods()) == (1, [])


@pytest.fixture
def recorded_calls(own_cli: Cli) -> tuple[Cli, Path]:
    """A network of two plugins, and the file that they note their verbs in; the second fails for pods named bad."""
    called = own_cli.folder / "called"
    own_cli.plugin("picky", f'echo "$CNI_COMMAND" >> {called}\n{PICKY}')
    own_cli.plugin("witness", f'cat > /dev/null; echo "$CNI_COMMAND" >> {called}; echo \'{{"cniVersion": "1.0.0"}}\'')
    own_cli.configure({"cniVersion": "1.0.0", "name": "net", "plugins": [{"type": "witness"}, {"type": "picky"}]})
    return own_cli, called


def run_with_closed_output(cli: Cli, *args: str) -> int:
    """Run a verb whose stderr nobody reads."""
    with cli.background(*args) as process:
        assert process.stderr is not None
        process.stderr.close()
        return process.wait(HANG)


def test_add_and_delete_work_with_closed_output(recorded_calls: tuple[Cli, Path]) -> None:
    cli, called = recorded_calls

    assert run_with_closed_output(cli, "-vv", "add", "pod1") == 0
    assert [pod["state"] for pod in cli.pods()] == ["ready"]
    assert run_with_closed_output(cli, "-vv", "del", "pod1") == 0
    assert (cli.pods(), cli.cached_results()) == ([], set())
    assert called.read_text().split() == ["ADD", "ADD", "DEL", "DEL"]


def test_failing_add_with_closed_output_is_undone(recorded_calls: tuple[Cli, Path]) -> None:
    cli, called = recorded_calls

    assert run_with_closed_output(cli, "-v", "add", "bad", "--network", "net") == 1
    assert cli.pods() == []
    # Once for the ADD that failed, once for the pod.
    assert called.read_text().split() == ["ADD", "ADD", *["DEL"] * 4]


def test_pod_that_cannot_be_taken_back_stays_on_record(cli: Cli) -> None:
    with_picky(cli)

    failed = cli.run("add", "bad-and-stuck", "--network", "picky", check=False)

    assert failed.returncode == 1
    assert "could not be taken back" in failed.stderr
    assert [pod["state"] for pod in cli.pods()] == ["incomplete"]


def test_missing_plugin_is_named_before_anything_is_made(cli: Cli) -> None:
    cli.configure({"cniVersion": "1.0.0", "name": "net", "plugins": [{"type": "missing"}]})

    failed = cli.run("add", "pod1", check=False)

    assert failed.returncode == 1
    assert 'no executable "missing"' in failed.stderr
    assert str(cli.bin_dir) in failed.stderr
    assert cli.pods() == []


def test_two_adds_of_one_name_make_one_pod(cli: Cli) -> None:
    cli.configure(bridge_network("net"))

    with ExitStack() as stack:
        both = [stack.enter_context(cli.background("add", "pod1")) for _ in range(2)]
        said = [process.communicate(timeout=HANG)[1] for process in both]

    assert sorted(process.returncode for process in both) == [0, 1]
    (loser,) = [text for text in said if text]
    assert loser.startswith("Error: pod default/pod1: ")
    assert len(cli.pods()) == 1
    assert len(cli.reservations("net")) == 1


@pytest.fixture
def gated(own_cli: Cli) -> tuple[Cli, Path, Path]:
    """A network whose ADD makes the first file, and goes on when the second, a FIFO, is written to."""
    started, gate = own_cli.folder / "started", own_cli.folder / "gate"
    os.mkfifo(gate)
    own_cli.plugin(
        "slow",
        f"""cat > /dev/null
if [ "$CNI_COMMAND" = ADD ]; then
    touch {started}
    read -r line < {gate}
    echo '{{"cniVersion": "1.1.0"}}'
fi
""",
    )
    own_cli.configure({"cniVersion": "1.1.0", "name": "net", "plugins": [{"type": "slow"}]})
    return own_cli, started, gate


def test_add_of_a_pod_that_is_being_added_is_refused_at_once(gated: tuple[Cli, Path, Path]) -> None:
    cli, started, gate = gated
    with cli.background("add", "pod1") as first:
        until(started.exists)

        second = cli.run("add", "pod1", check=False)

        gate.write_text("\n")
        assert first.wait(HANG) == 0
    assert second.returncode == 1
    assert second.stderr.startswith("Error: pod default/pod1: is being made or taken away by somebody else")
    assert [pod["state"] for pod in cli.pods()] == ["ready"]


def test_delete_of_a_pod_that_is_being_added_waits(gated: tuple[Cli, Path, Path]) -> None:
    cli, started, gate = gated
    with cli.background("add", "pod1") as add:
        until(started.exists)
        with cli.background("del", "pod1") as delete:
            until(lambda: waits_for_a_lock(delete.pid))
            gate.write_text("\n")
            assert (add.wait(HANG), delete.wait(HANG)) == (0, 0)

    assert cli.pods() == []


def test_two_deletes_of_one_pod_both_succeed(cli: Cli) -> None:
    cli.configure(bridge_network("net"))
    cli.add("pod1")

    with ExitStack() as stack:
        both = [stack.enter_context(cli.background("del", "pod1")) for _ in range(2)]
        said = [process.communicate(timeout=HANG)[1] for process in both]

    assert [process.returncode for process in both] == [0, 0], said
    assert (cli.pods(), cli.reservations("net")) == ([], set())


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_many_processes_make_one_node(cli: Cli) -> None:
    cli.configure(bridge_network("net"))

    with ExitStack() as stack:
        processes = [stack.enter_context(cli.background("add", f"pod{number}")) for number in range(8)]
        said = [process.communicate(timeout=HANG)[1] for process in processes]

    assert [process.returncode for process in processes] == [0] * 8, said
    assert len(cli.reservations("net")) == 8


def test_gc_waits_until_no_pod_is_being_added(cli: Cli) -> None:
    started, gate, order = (cli.folder / name for name in ("started", "gate", "order"))
    os.mkfifo(gate)
    cli.plugin(
        "slow",
        f"""cat > /dev/null
if [ "$CNI_COMMAND" = ADD ]; then
    touch {started}
    read -r line < {gate}
    echo '{{"cniVersion": "1.1.0"}}'
fi
echo $CNI_COMMAND >> {order}
""",
    )
    cli.configure({"cniVersion": "1.1.0", "name": "net", "plugins": [{"type": "slow"}]})

    with cli.background("add", "pod1") as add:
        until(started.exists)
        with cli.background("gc") as gc:
            until(lambda: waits_for_a_lock(gc.pid))
            gate.write_text("\n")
            assert (add.wait(HANG), gc.wait(HANG)) == (0, 0)

    assert order.read_text().split() == ["ADD", "GC"]


def test_prune_waits_for_a_pod_that_is_being_added_to_the_bridge(gated: tuple[Cli, Path, Path]) -> None:
    cli, started, gate = gated
    cli.plugin(
        "slow",
        f"""cat > /dev/null
[ "$CNI_COMMAND" = ADD ] || exit 0
ip link add slow0 type bridge 2> /dev/null
case "$CNI_ARGS" in
*K8S_POD_NAME=pod2*) touch {started}; read -r line < {gate};;
esac
ip link add type veth 2> /dev/null
ip link set veth0 master slow0 || exit 1
echo '{{"cniVersion": "1.1.0", "interfaces": [{{"name": "slow0"}}]}}'
""",
    )
    cli.add("pod1")
    cli.ip("link", "delete", "veth0")
    with cli.background("add", "pod2") as add:
        until(started.exists)
        with cli.background("del", "pod1", "--prune") as delete:
            until(lambda: waits_for_a_lock(delete.pid) or delete.poll() is not None)
            gate.write_text("\n")
            _, said = add.communicate(timeout=HANG)
            assert delete.wait(HANG) == 0

    assert (add.returncode, said) == (0, "")
    assert [link["ifname"] for link in cli.ip("link", "show", "master", "slow0")] == ["veth0"]
    assert [pod["name"] for pod in cli.pods()] == ["pod2"]
