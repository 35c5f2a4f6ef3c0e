import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from netlink.own_namespaces import private_mounts
from tests.nodes import Node

pytestmark = pytest.mark.sudo


def test_one_thread_and_its_children_see_the_bound_folder(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    for folder in (source, target):
        folder.mkdir()
        (folder / "name").write_text(folder.name)

    with ThreadPoolExecutor(1) as thread:
        thread.submit(private_mounts, {str(target): str(source)}).result()
        seen = thread.submit((target / "name").read_text).result()
        child = thread.submit(subprocess.check_output, ["cat", str(target / "name")], text=True).result()

    assert seen == "source"
    assert child == "source"
    assert (target / "name").read_text() == "target"
    assert str(target) not in Path("/proc/self/mountinfo").read_text()


def test_bind_mounts_do_not_propagate_through_a_shared_mount(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "target").mkdir()
    script = (
        "import sys, threading\n"
        "from pathlib import Path\n"
        "from netlink.own_namespaces import private_mounts\n"
        "def mount():\n"
        "    private_mounts({sys.argv[1] + '/target': sys.argv[1] + '/source'})\n"
        "    print(Path('/proc/thread-self/mountinfo').read_text().count('/target'))\n"
        "thread = threading.Thread(target=mount); thread.start(); thread.join()\n"
        "print(Path('/proc/self/mountinfo').read_text().count('/target'))\n"
    )
    share = 'mount --bind "$1" "$1" && mount --make-shared "$1" && exec "$2" -c "$3" "$1"'
    run = subprocess.run(
        ["unshare", "--mount", "sh", "-c", share, "sh", str(tmp_path), sys.executable, script],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(Path.cwd()), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
    )

    assert run.stdout.split() == ["1", "0"]


def test_in_a_chroot_that_is_no_mount_point_nothing_leaves_either(tmp_path: Path) -> None:
    for folder in ("source", "target"):
        (tmp_path / "chroot" / folder).mkdir(parents=True)
        (tmp_path / "chroot" / folder / "name").write_text(folder)
    script = (
        "import os, threading\n"
        "from pathlib import Path\n"
        "from netlink.own_namespaces import private_mounts\n"
        "def mount():\n"
        "    private_mounts({'/target': '/source'})\n"
        "    print(Path('/target/name').read_text(), os.getcwd())\n"
        "os.chdir('/source')\n"
        "thread = threading.Thread(target=mount); thread.start(); thread.join()\n"
        "print(Path('/target/name').read_text(), os.getcwd())\n"
    )
    enter = """
        set -e
        mount --bind "$1" "$1"
        mount --make-shared "$1"
        for place in /*; do
            if [ -h "$place" ]; then cp -P "$place" "$1/chroot"
            elif [ -d "$place" ]; then mkdir "$1/chroot$place"; mount --bind "$place" "$1/chroot$place"
            fi
        done
        exec chroot "$1/chroot" "$2" -c "$3"
    """
    run = subprocess.run(
        ["unshare", "--mount", "sh", "-c", enter, "sh", str(tmp_path), sys.executable, script],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(Path.cwd()), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
    )

    assert run.stderr == ""
    assert run.stdout.splitlines() == ["source /source", "target /source"]


def test_namespaces_made_later_arrive_in_the_private_mounts(node: Node, tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as thread:
        thread.submit(private_mounts, {}).result()
        later = node.pod_namespace("later")
        kind = thread.submit(subprocess.check_output, ["stat", "-f", "-c", "%T", later], text=True).result()

    assert kind.strip() == "nsfs"


def test_a_missing_target_is_an_error(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as thread, pytest.raises(FileNotFoundError, match="nowhere"):
        thread.submit(private_mounts, {str(tmp_path / "nowhere"): str(tmp_path)}).result()


def test_kept_paths_stay_visible_below_a_bound_folder(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    for path in (source / "kept", target / "kept", target / "hidden"):
        path.mkdir(parents=True)
    (target / "kept" / "name").write_text("the machine's")
    kept = [str(target / "kept"), str(target / "gone meanwhile")]

    with ThreadPoolExecutor(1) as thread:
        thread.submit(private_mounts, {str(target): str(source)}, kept).result()
        seen = thread.submit(lambda: sorted(path.name for path in target.iterdir())).result()
        name = thread.submit((target / "kept" / "name").read_text).result()

    assert seen == ["kept"]
    assert name == "the machine's"
