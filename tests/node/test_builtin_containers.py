"""Containers of the built-in runtime, with an image under runc and without one."""

import re
import stat
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness.containerd import control_groups
from harness.cri.messages import ContainerSecurity, KeyValue, Mount, Resources
from harness.cri.service import NotFoundError, RuntimeServiceError
from tests.builtin_containers import Pod, leftovers, log_texts
from tests.nodes import until

pytestmark = pytest.mark.sudo

_ENTRY = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z (stdout|stderr) [PF] .*")
_ROOT = ContainerSecurity(run_as_user=0)
_NEW_FILE = "/bin/r2-file"
"""On the root file system, in the image and on this machine: /etc may be a mount of its own."""


def test_a_container_joins_the_namespaces_of_its_pod(pod: Pod) -> None:
    names = ("net", "ipc", "uts", "mnt", "pid")

    texts = pod.output("sh", "-c", "for n in net ipc uts mnt pid; do readlink /proc/self/ns/$n; done; hostname")

    *found, hostname = texts.splitlines()
    of_pause = [_namespace(pod.pause_pid, name) for name in names]
    assert of_pause[:3] == found[:3]
    assert of_pause[3] != found[3]
    assert of_pause[4] != found[4]
    assert hostname == "in-pod"


def test_containers_share_the_pods_processes_if_it_says_so(shared_pod: Pod) -> None:
    shared_pod.running("sleep", "1234", name="other")

    texts = shared_pod.output("sh", "-c", "ps -o args 2>/dev/null || ps ax -o args; readlink /proc/self/ns/pid")

    assert "sleep 1234" in texts
    assert _namespace(shared_pod.pause_pid, "pid") == texts.splitlines()[-1]


@pytest.mark.parametrize(
    ("script", "code", "reason"),
    [("true", 0, "Completed"), ("exit 3", 3, "Error"), ("trap 'exit 5' TERM; kill -TERM $$; exit 1", 5, "Error")],
)
def test_the_exit_code_is_kept(pod: Pod, script: str, code: int, reason: str) -> None:
    before = time.time_ns()

    status = pod.finished("sh", "-c", script)

    assert (code, reason) == (status.exit_code, status.reason)
    assert before <= status.created_at <= status.started_at <= status.finished_at <= time.time_ns()


def test_a_process_that_a_signal_ends_has_128_more(pod: Pod) -> None:
    container = pod.running("sleep", "1000")

    pod.containers.stop_container(container, 0)

    status = pod.containers.container_status(container)
    assert (status.exit_code, status.reason) == (137, "Error")


def test_the_log_has_the_format_of_the_cri(pod: Pod) -> None:
    pod.finished("sh", "-c", "echo one; sleep 0.2; echo two >&2; sleep 0.2; printf three")

    lines = pod.log()

    assert all(_ENTRY.fullmatch(line) for line in lines)
    assert [line.split(" ", 1)[1] for line in lines] == ["stdout F one", "stderr F two", "stdout P three"]
    assert stat.S_IMODE((pod.logs / "app/0.log").stat().st_mode) == 0o640


def test_no_output_is_lost(pod: Pod) -> None:
    texts = pod.output("awk", "BEGIN { for (i = 0; i < 200000; i++) print i }").splitlines()

    assert [str(number) for number in range(200_000)] == texts


def test_a_terminal_is_the_process_s_own(pod: Pod) -> None:
    texts = pod.output("sh", "-c", "test -t 0 && test -t 1 && test -t 2 && echo all; echo $TERM", tty=True)

    assert texts == "all\nxterm"


def test_stop_sends_the_stop_signal(pod: Pod) -> None:
    name = "USR1" if pod.image else "TERM"  # the image says which
    container = pod.running(
        "sh", "-c", f"trap 'echo got {name}; exit 7' {name}; echo ready; while :; do sleep 0.1; done"
    )
    until(pod.log)

    pod.containers.stop_container(container, 600)

    assert pod.containers.container_status(container).exit_code == 7
    assert log_texts(pod.log())[-1] == f"got {name}"


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_stop_kills_a_process_that_ignores_the_signal_after_the_grace_period(pod: Pod) -> None:
    container = pod.running("sh", "-c", "trap 'echo ignored' TERM USR1; echo ready; while :; do sleep 0.1; done")
    until(pod.log)
    began = time.monotonic()

    pod.containers.stop_container(container, 1)

    assert time.monotonic() - began >= 1
    assert pod.containers.container_status(container).exit_code == 137
    assert log_texts(pod.log()) == ["ready", "ignored"]
    pod.containers.stop_container(container, 1)  # once more is fine


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_a_repeated_stop_sends_no_second_signal(pod: Pod) -> None:
    container = pod.running("sh", "-c", "trap 'echo signal' TERM USR1; echo ready; while :; do sleep 0.1; done")
    until(pod.log)
    with ThreadPoolExecutor() as pool:
        first = pool.submit(pod.containers.stop_container, container, 600)
        until(lambda: len(pod.log()) == 2)

        pod.reopen().stop_container(container, 1)
        first.result()

    assert log_texts(pod.log()) == ["ready", "signal"]
    assert pod.containers.container_status(container).exit_code == 137


def test_exec_sync_returns_output_and_exit_code(pod: Pod) -> None:
    container = pod.running("sleep", "1000")

    result = pod.containers.exec_sync(container, ["sh", "-c", "echo $HOSTNAME; echo bad >&2; exit 4"], 0)

    assert (result.stdout, result.stderr, result.exit_code) == ("in-pod\n", "bad\n", 4)


def test_exec_sync_runs_beside_the_first_process(pod: Pod) -> None:
    container = pod.running("sleep", "1000", security=_ROOT)
    script = "for n in net ipc uts mnt pid; do readlink /proc/1/ns/$n; readlink /proc/self/ns/$n; done; cat /etc/hosts"

    result = pod.containers.exec_sync(container, ["sh", "-c", script], 0)

    *lines, hosts = result.stdout.splitlines()
    assert lines[::2] == lines[1::2]
    assert len(lines) == 10
    assert hosts == "192.0.2.1 of-the-pod"


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_exec_sync_ends_a_command_at_its_time_limit(pod: Pod) -> None:
    container = pod.running("sleep", "1000")

    with pytest.raises(TimeoutError, match="timeout 1s exceeded: context deadline exceeded"):
        pod.containers.exec_sync(container, ["sleep", "4321"], 1)

    assert "4321" not in pod.containers.exec_sync(container, ["sh", "-c", _ALL_COMMANDS], 0).stdout
    assert pod.containers.container_status(container).state == "CONTAINER_RUNNING"


_ALL_COMMANDS = (
    "for each in /proc/[0-9]*; do tr '\\0' ' ' < $each/cmdline; echo; done; cat /proc/[0-9]*/cmdline | grep -c 43''21"
)


def test_exec_sync_says_why_a_command_cannot_run(pod: Pod) -> None:
    container = pod.running("sleep", "1000")

    with pytest.raises(
        RuntimeServiceError, match=r"failed to exec in container: .*no-such-command.*not found in \$PATH"
    ):
        pod.containers.exec_sync(container, ["no-such-command"], 0)


def test_exec_sync_needs_a_running_container(pod: Pod) -> None:
    container = pod.container("true")

    with pytest.raises(RuntimeServiceError, match="container is in CONTAINER_CREATED state"):
        pod.containers.exec_sync(container, ["true"], 0)


def test_exec_uses_this_process_s_streams(pod: Pod, capfd: pytest.CaptureFixture[str]) -> None:
    container = pod.running("sleep", "1000")

    code = pod.containers.exec(container, ["sh", "-c", "echo out; echo err >&2; exit 9"], tty=False, stdin=False)

    assert (code, *capfd.readouterr()) == (9, "out\n", "err\n")


def test_a_command_that_is_missing_is_a_start_error(pod: Pod) -> None:
    container = pod.container("no-such-command")

    with pytest.raises(RuntimeServiceError, match=r'exec: "no-such-command": executable file not found in \$PATH'):
        pod.containers.start_container(container)

    status = pod.containers.container_status(container)
    assert (
        status.state,
        status.exit_code,
        status.reason,
        status.started_at,
    ) == ("CONTAINER_EXITED", 128, "StartError", 0)
    assert "no-such-command" in status.message
    assert leftovers(container) == []
    with pytest.raises(RuntimeServiceError, match="container is in CONTAINER_EXITED state"):
        pod.containers.start_container(container)


def test_a_container_of_a_dead_sandbox_does_not_start(pod: Pod) -> None:
    container = pod.container("true")
    pod.pause_pid = 0

    with pytest.raises(RuntimeServiceError, match='sandbox container "sandbox1" is not running'):
        pod.containers.start_container(container)
    with pytest.raises(RuntimeServiceError, match='sandbox container "sandbox1" is not running'):
        pod.container("true", name="other")


def test_volumes_and_the_pods_files_are_mounted(pod: Pod, tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(0o777)
        (tmp_path / name / "file").write_text(name)
    mounts = [
        Mount(container_path="/r2-volume/inner", host_path=str(tmp_path / "two")),
        Mount(container_path="/r2-volume", host_path=str(tmp_path / "one")),
        Mount(container_path="/run/r2-volume/below", host_path=str(tmp_path / "three"), readonly=True),
        Mount(container_path="/r2-file", host_path=str(tmp_path / "one/file")),
        Mount(container_path="/r2-made", host_path=str(tmp_path / "missing")),
    ]
    (tmp_path / "one/inner").mkdir()
    script = """
        cat /r2-volume/file; echo; cat /r2-volume/inner/file; echo
        cat /run/r2-volume/below/file; echo; cat /r2-file; echo
        cat /etc/resolv.conf /etc/hosts
        echo new > /r2-volume/written
        ! touch /run/r2-volume/below/x 2>/dev/null && test -d /r2-made && echo readonly
    """

    texts = pod.output("sh", "-c", script, mounts=mounts).splitlines()

    expected = ["one", "two", "three", "one", "nameserver 192.0.2.53", "192.0.2.1 of-the-pod", "readonly"]
    assert expected == texts
    assert (tmp_path / "one/written").read_text() == "new\n"
    assert [path for path in ("/r2-volume", "/r2-file", "/r2-made", "/run/r2-volume") if Path(path).exists()] == []


def test_no_mount_point_is_made_on_the_nodes_other_file_systems(pod: Pod, tmp_path: Path) -> None:
    disk, volume = tmp_path / "disk", tmp_path / "volume"
    for path in (disk, volume):
        path.mkdir()
    (volume / "file").write_text("text")
    disk.chmod(0o755)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", disk], check=True)
    try:
        (disk / "below").mkdir()
        (disk / "own").write_text("node")
        mounts = [
            Mount(container_path=str(disk / "new/volume"), host_path=str(volume)),
            Mount(container_path=str(disk / "below"), host_path=str(volume)),
        ]

        script = f"cd {disk}; cat new/volume/file below/file; cat own 2>/dev/null || :"

        texts = pod.output("sh", "-c", script, mounts=mounts, security=_ROOT)

        assert texts == ("texttext" if pod.image else "texttextnode")
        assert {disk / "below", disk / "own"} == set(disk.rglob("*"))
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_container_writes_to_a_layer_of_its_own(pod: Pod) -> None:
    script = f"echo mine > {_NEW_FILE} && cat {_NEW_FILE}"

    first = pod.output("sh", "-c", script, security=_ROOT)
    second = pod.output("sh", "-c", f"test ! -e {_NEW_FILE} && echo absent", name="second", security=_ROOT)

    assert (first, second) == ("mine", "absent")
    assert not Path(_NEW_FILE).exists()


def test_a_read_only_root_takes_no_file(pod: Pod) -> None:
    security = ContainerSecurity(run_as_user=0, readonly_rootfs=True)

    status = pod.finished("sh", "-c", f"touch {_NEW_FILE}", security=security)

    assert status.exit_code == 1
    assert "Read-only file system" in log_texts(pod.log())[0]


def test_user_groups_and_capabilities_match_the_request(pod: Pod) -> None:
    security = ContainerSecurity(
        run_as_user=4000, run_as_group=4001, supplemental_groups=[4002], no_new_privs=True, drop_capabilities=["ALL"]
    )

    texts = pod.output("grep", "-E", "^(Uid|Gid|Groups|NoNewPrivs|CapBnd)", "/proc/self/status", security=security)

    found = {name: words.split() for name, words in (line.split(":") for line in texts.splitlines())}
    assert found["Uid"] == ["4000"] * 4
    assert found["Gid"] == ["4001"] * 4
    assert found["Groups"] == ["4001", "4002"]
    assert found["NoNewPrivs"] == ["1"]
    assert found["CapBnd"] == ["0" * 16]


def test_capabilities_are_the_default_set_of_runtimes(pod: Pod) -> None:
    security = ContainerSecurity(run_as_user=0, add_capabilities=["NET_ADMIN"], drop_capabilities=["CAP_MKNOD"])

    texts = pod.output("grep", "-E", "^Cap(Bnd|Eff)", "/proc/self/status", security=security)

    # containerd's default is a80425fb; 1000 is NET_ADMIN, 8000000 is MKNOD.
    assert {int(line.split()[1], 16) for line in texts.splitlines()} == {0xA80425FB + 0x1000 - 0x8000000}


def test_a_privileged_container_has_all_capabilities(pod: Pod) -> None:
    security = ContainerSecurity(run_as_user=0, privileged=True)

    texts = pod.output("sh", "-c", "grep CapEff /proc/self/status; test -c /dev/kmsg && echo device", security=security)

    own = re.search(r"CapBnd:\s*(\w+)", Path("/proc/self/status").read_text())
    assert own is not None
    assert texts.split()[1] == own[1]
    assert texts.splitlines()[1] == "device"


def test_the_environment_of_the_request_wins(pod: Pod) -> None:
    envs = [KeyValue(key="FROM", value="request"), KeyValue(key="EMPTY")]

    texts = pod.output(
        "sh", "-c", "echo $FROM; echo ${EMPTY-unset}; echo $HOSTNAME; pwd", envs=envs, working_dir="/tmp"
    )

    assert texts == "request\n\nin-pod\n/tmp"


def test_memory_beyond_the_limit_kills_the_container(pod: Pod) -> None:
    if not control_groups.writable():
        pytest.skip("control groups are read-only here")
    limit = Resources(memory_limit_in_bytes=16 << 20, cpu_quota=50_000, cpu_shares=256)

    status = pod.finished("sh", "-c", "exec tail /dev/zero", resources=limit)

    assert (status.exit_code, status.reason) == (137, "OOMKilled")


def test_a_killed_container_is_not_out_of_memory(pod: Pod) -> None:
    container = pod.running("sleep", "1000", resources=Resources(memory_limit_in_bytes=64 << 20))

    pod.containers.stop_container(container, 0)

    assert pod.containers.container_status(container).reason == "Error"


def test_remove_leaves_nothing(pod: Pod) -> None:
    running = pod.running("sh", "-c", "sleep 1000 & sleep 1000")
    ended = pod.running("true", name="ended")
    pod.ended(ended)
    created = pod.container("true", name="created")
    assert leftovers(running) != []

    for container in (running, ended, created):
        pod.containers.remove_container(container)
        pod.containers.remove_container(container)

    assert pod.containers.list_containers() == []
    assert [found for each in (running, ended, created) for found in leftovers(each)] == []
    assert list((pod.folder / "node/containers").iterdir()) == []
    assert str(pod.folder) not in Path("/proc/self/mountinfo").read_text()
    runc_state = pod.folder / "node/runc"
    assert not runc_state.exists() or list(runc_state.iterdir()) == []
    with pytest.raises(NotFoundError):
        pod.containers.container_status(running)
    pod.containers.stop_container(running, 1)


def test_processes_in_the_background_end_with_the_container(shared_pod: Pod) -> None:
    seconds = str(1_000_000 + shared_pod.pause_pid)  # no other test has it
    container = shared_pod.running("sh", "-c", f"sleep {seconds} & sleep {seconds} & exec sleep {seconds}")
    until(lambda: len(_sleeping(seconds)) == 3)

    shared_pod.containers.stop_container(container, 0)
    shared_pod.containers.remove_container(container)

    assert _sleeping(seconds) == []


def test_an_ended_container_has_nothing_in_the_kernel(shared_pod: Pod) -> None:
    ended = shared_pod.finished("sh", "-c", "sleep 1000 & exit 2")

    assert ended.exit_code == 2
    until(lambda: leftovers(ended.id) == [])  # the shim ends last


def test_a_list_has_the_labels_that_are_asked_for(pod: Pod) -> None:
    one = pod.running("sleep", "1000", name="one", labels={"app": "a", "tier": "x"})
    two = pod.container("true", name="two", labels={"app": "b"})

    listed = {each.id: each.state for each in pod.containers.list_containers()}

    assert {one: "CONTAINER_RUNNING", two: "CONTAINER_CREATED"} == listed
    assert [one] == [each.id for each in pod.containers.list_containers("sandbox1", {"app": "a"})]
    assert pod.containers.list_containers("sandbox2") == []


def test_a_name_is_given_once(pod: Pod) -> None:
    first = pod.container("true")

    with pytest.raises(RuntimeServiceError, match=f'"app_pod1_default_uid1_0" is reserved for "{first}"'):
        pod.container("true")

    pod.containers.remove_container(first)
    pod.container("true")


def _namespace(pid: int, name: str) -> str:
    return str(Path(f"/proc/{pid}/ns/{name}").readlink())


def _sleeping(seconds: str) -> list[str]:
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            try:
                words = (process / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[0] == b"sleep" and seconds.encode() in words:
                found.append(process.name)
    return found
