"""Fixtures of all tests: nodes, and our plugins as executables."""

import signal
import subprocess
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from launch.launcher import launcher_bytes, launcher_text
from tests.cli import Cli
from tests.markers import IMAGES, LINES, apply_markers
from tests.nodes import HANG, Node
from tests.samples import mark_slow, sampled
from tests.servers import running_server, write_launchers
from tests.turns import turns
from tools.zipapp.archive import write


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options for tables and for random packets."""
    parser.addoption(
        "--both-kinds", action="store_true", help="execute all tests directly and by a server, none in turns"
    )
    parser.addoption("--all-rows", action="store_true", help="run all rows of long tables, not a sample of them")
    parser.addoption(
        "--path-pairs", type=int, default=40, help="random packets that `path` is compared with the kernel for"
    )
    parser.addoption("--path-seed", type=int, default=13, help="the seed of these packets, and of the rules they meet")


def pytest_configure(config: pytest.Config) -> None:
    """Have tests start programs that signals end, although nohup and shells' background jobs ignore some."""
    for line in LINES:
        config.addinivalue_line("markers", line)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark tests that have a node with sudo, and tests that have an image with its programs; set time limits."""
    if "make_node" in getattr(item, "fixturenames", ()):
        item.add_marker(pytest.mark.sudo)
    if "busybox_layout" in getattr(item, "fixturenames", ()):
        item.add_marker(IMAGES)
    apply_markers(item)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None]:
    """Have rows of tables and tests of the command line take turns with both kinds of execution; take samples.

    All other tests run with both kinds, as all do with `--both-kinds`. A test whose other kind is not collected stays.
    """
    mark_slow(items)  # before -m selects by markers
    yield
    for option, choose in (("both_kinds", turns), ("all_rows", sampled)):
        if not config.getoption(option):
            kept, left_out = choose(items)
            items[:] = kept
            config.hook.pytest_deselected(items=left_out)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail a test that is skipped for another reason than the kernel, as CI does: it would go unnoticed otherwise.

    The machines of tests/vm and the runtimes of tests/runtime differ in more than the kernel.
    """
    report = yield
    elsewhere = {"runtime", "vm"} & {folder.name for folder in item.path.parents}
    if report.skipped and not hasattr(report, "wasxfail") and not elsewhere:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if "kernel" not in reason:
            report.outcome = "failed"
            report.longrepr = f"only what the kernel lacks may be skipped (tests/kernel.py), not this: {reason}"
    return report


@pytest.fixture
def make_cli(tmp_path: Path) -> Iterator[Callable[[Path], Cli]]:
    """Makes a command line with a node of its own at each call; all go when the test is over."""
    with ExitStack() as made:

        def make(bin_dir: Path) -> Cli:
            cli = Cli(tmp_path / f"cli{len(list(tmp_path.iterdir()))}", bin_dir)
            made.callback(cli.close)
            return cli

        yield make


@pytest.fixture(scope="session")
def apart(request: pytest.FixtureRequest) -> int:
    """The distance of the requests that fail in tests for an emulated processor: 1, each, with `--all-rows`."""
    return 1 if request.config.getoption("all_rows") else 3


@pytest.fixture(scope="session")
def direct_bin_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for CNI_PATH: one launcher under the name of each of our plugins, which executes it by itself."""
    return write_launchers(tmp_path_factory.mktemp("bin"), launcher_bytes(socket=""))


@pytest.fixture(scope="session")
def python_bin_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, with the launcher that takes the compiled one's place: for what only Python can tell of itself."""
    return write_launchers(tmp_path_factory.mktemp("python"), launcher_text(socket=""))


@pytest.fixture(scope="session")
def served_bin_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The same with launchers that have a server execute it."""
    folder = tmp_path_factory.mktemp("served")
    with running_server(folder) as server:
        bin_dir = write_launchers(folder / "bin", launcher_bytes(socket=str(server.socket), timeout=HANG))
        subprocess.run([bin_dir / "noop"], env={"CNI_COMMAND": "VERSION"}, capture_output=True, check=True)
        yield bin_dir

        assert server.stop() == 0
        assert server.requests() > 0


@pytest.fixture(scope="session", params=["direct", "served"])
def bin_dir(request: pytest.FixtureRequest) -> Path:
    """A folder for CNI_PATH: tests run with both kinds of execution, or take turns with them (tests/turns.py)."""
    folder: Path = request.getfixturevalue(f"{request.param}_bin_dir")
    return folder


@pytest.fixture(scope="session")
def one_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """cni-harness.pyz, as `make zipapp` writes it."""
    archive = tmp_path_factory.mktemp("one-file") / "cni-harness.pyz"
    write(archive)
    return archive


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder that everybody may enter: pytest keeps its own from other users."""
    with TemporaryDirectory(prefix="cni-harness-test-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture
def make_node(tmp_path: Path) -> Iterator[Callable[[], Node]]:
    """Makes a node at each call; all go when the test is over."""
    with ExitStack() as nodes:

        def make() -> Node:
            node = Node(tmp_path)
            nodes.callback(node.close)
            return node

        yield make


@pytest.fixture
def node(make_node: Callable[[], Node]) -> Node:
    """A node with nothing on it but `lo`, up."""
    return make_node()
