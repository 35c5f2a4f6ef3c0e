import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import pytest

from netlink.namespace import (
    NotANamespaceError,
    create_namespace,
    current_namespace,
    entered,
    open_namespace,
    remove_namespace,
)
from tests.nodes import Node

pytestmark = pytest.mark.sudo


@pytest.fixture
def path() -> Iterator[str]:
    path = f"/run/netns/t-{uuid4().hex[:12]}"
    yield path
    remove_namespace(path)


def test_created_namespace_is_new_and_has_lo_up(path: str) -> None:
    create_namespace(path)

    with open_namespace(path) as namespace, current_namespace() as own:
        assert own.identity != namespace.identity
    shown = subprocess.run(
        ["nsenter", f"--net={path}", "ip", "-br", "link"], capture_output=True, text=True, check=True
    )
    assert shown.stdout.split() == ["lo", "UNKNOWN", "00:00:00:00:00:00", "<LOOPBACK,UP,LOWER_UP>"]


def test_creating_over_an_existing_path_fails_and_keeps_it(path: str) -> None:
    create_namespace(path)
    with open_namespace(path) as namespace:
        before = namespace.identity

    with pytest.raises(FileExistsError):
        create_namespace(path)

    with open_namespace(path) as namespace:
        assert before == namespace.identity


def test_removing_tells_whether_it_was_there(path: str) -> None:
    create_namespace(path)

    assert remove_namespace(path) is True
    assert not os.path.lexists(path)
    assert remove_namespace(path) is False


def test_a_plain_file_left_by_a_crash_is_removed(path: str) -> None:
    create_namespace(path)  # the folder exists from here on
    remove_namespace(path)
    Path(path).touch()

    assert remove_namespace(path) is True
    assert not os.path.lexists(path)


def test_mounts_stacked_on_one_path_are_all_removed(path: str) -> None:
    create_namespace(path)
    subprocess.run(["mount", "--bind", "/proc/self/ns/net", path], check=True)

    assert remove_namespace(path) is True
    assert path not in Path("/proc/self/mountinfo").read_text()


def test_a_creation_that_fails_leaves_nothing(tmp_path: Path) -> None:
    # A user namespace that may hold no network namespaces, so that the step after the file's creation fails.
    target = tmp_path / "folder" / "pod"
    script = (
        "from netlink.namespace import create_namespace\n"
        f"try: create_namespace({str(target)!r})\n"
        "except OSError as error: print(error.errno)\n"
        f"import os; print(os.listdir({str(target.parent)!r}))"
    )
    forbid = 'echo 0 > /proc/sys/user/max_net_namespaces && exec "$@"'
    run = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", forbid, "sh", sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(Path.cwd())},
    )

    assert [str(errno.ENOSPC), "[]"] == run.stdout.split()


def test_entering_moves_this_thread_only_and_back_after_an_error(path: str) -> None:
    create_namespace(path)

    def identity() -> tuple[int, int]:
        with current_namespace() as namespace:
            return namespace.identity

    home = identity()
    with ThreadPoolExecutor(1) as other_thread:
        assert home == other_thread.submit(identity).result()
        with open_namespace(path) as namespace:
            with entered(namespace):
                assert namespace.identity == identity()
                assert home == other_thread.submit(identity).result()
            assert home == identity()
            with pytest.raises(ZeroDivisionError), entered(namespace):
                _ = 1 / 0
    assert home == identity()


def test_threads_create_namespaces_at_once(path: str) -> None:
    paths = [f"{path}-{number}" for number in range(20)]

    def create(one: str) -> tuple[tuple[int, int], tuple[int, int]]:
        create_namespace(one)
        with open_namespace(one) as namespace, current_namespace() as own:
            return namespace.identity, own.identity

    try:
        with ThreadPoolExecutor(20) as pool:
            identities = list(pool.map(create, paths))
        with current_namespace() as own:
            assert {own.identity} == {callers for _, callers in identities}
        assert len(paths) == len({created for created, _ in identities})
    finally:
        for one in paths:
            remove_namespace(one)


def test_a_namespace_is_seen_and_removed_from_another_mount_namespace(node: Node, path: str) -> None:
    create_namespace(path)
    assert node.run(["stat", "-f", "-c", "%T", path]).stdout.strip() == "nsfs"

    script = f"from netlink.namespace import *; assert remove_namespace({path!r}); create_namespace({path + '-2'!r})"
    node.run([sys.executable, "-c", script], env={"PYTHONPATH": str(Path.cwd())})

    assert not os.path.lexists(path)
    with open_namespace(f"{path}-2"):
        pass
    assert remove_namespace(f"{path}-2") is True


def test_the_folder_is_made_a_shared_mount(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    script = (
        "import sys\n"
        "from netlink.namespace import create_namespace\n"
        "for name in 'ab': create_namespace(f'{sys.argv[1]}/{name}')\n"
        "for line in open('/proc/self/mountinfo'):\n"
        "    if line.split()[4] == sys.argv[1]: print(line.split()[6])"
    )
    run = subprocess.run(
        ["unshare", "--mount", sys.executable, "-c", script, str(folder)],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(Path.cwd())},
    )

    (propagation,) = run.stdout.split()  # one mount, although two namespaces were made
    assert propagation.startswith("shared:")


def test_open_refuses_a_file_that_is_no_network_namespace(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.touch()
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)

    for path in (plain, fifo, tmp_path, Path("/dev/null"), Path("/proc/self/ns/mnt")):
        with pytest.raises(NotANamespaceError, match="not a network namespace"):
            open_namespace(str(path))
    with pytest.raises(FileNotFoundError):
        open_namespace(str(tmp_path / "gone"))
