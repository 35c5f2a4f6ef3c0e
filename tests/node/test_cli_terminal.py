"""Tables on a terminal are as wide as that; elsewhere they are plain."""

import re
import uuid

import pytest

from tests.cli import Cli, on_a_terminal

pytestmark = pytest.mark.sudo

STYLE = re.compile(r"\x1b\[[0-9;]*m")
DUAL_STACK = {
    "type": "bridge",
    "bridge": "dual0",
    "isDefaultGateway": True,
    "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.86.0.0/16"}], [{"subnet": "fd0d:6e1b:8b5c::/64"}]]},
}


@pytest.fixture
def dual(own_cli: Cli) -> Cli:
    own_cli.configure({"cniVersion": "1.0.0", "name": "dual", "plugins": [DUAL_STACK]})
    return own_cli


def lines(shown: str) -> list[str]:
    return [line.rstrip() for line in STYLE.sub("", shown).splitlines()]


@pytest.mark.mostly_slow(3, "each width; a part is in make test")
@pytest.mark.parametrize("columns", [40, 60, 80, 120, 200])
def test_no_line_is_wider_and_no_address_is_broken(dual: Cli, columns: int) -> None:
    added = lines(on_a_terminal(dual, "add", f"pod-{uuid.uuid4().hex[:6]}", columns=columns))
    listed = lines(on_a_terminal(dual, "list", columns=columns))

    for table in (added, listed):
        assert max(map(len, table)) <= columns
        words = " ".join(table).replace(",", " ").split()
        assert {"10.86.0.2/16", "fd0d:6e1b:8b5c::2/64"} <= set(words)


def test_row_that_fits_is_one_line(dual: Cli) -> None:
    _, row = lines(on_a_terminal(dual, "add", "pod1", columns=120))

    assert re.fullmatch(
        r"pod1  eth0       10\.86\.0\.2/16, fd0d:6e1b:8b5c::2/64  10\.86\.0\.1, fd0d:6e1b:8b5c::1  dual0   [\d.]+ m?s",
        row,
    )


def test_container_id_is_short_but_in_wide_json_and_yaml(dual: Cli) -> None:
    (pod,) = dual.add("pod1")
    whole, short = pod["containerID"], pod["containerID"][:12]

    for output in ("wide", "json", "yaml"):
        assert whole in dual.run("list", "-o", output).stdout
    for shown in (dual.run("list").stdout, on_a_terminal(dual, "list"), on_a_terminal(dual, "inspect", "pod1")):
        assert short in shown
        assert whole not in shown
    (row,) = lines(on_a_terminal(dual, "list", "-o", "wide"))[1:]
    assert len(row) > 120
    deleted = dual.run("del", "pod1").stdout
    assert short in deleted
    assert whole not in deleted


@pytest.mark.slow("a run of the suite on a terminal; widths of lines are in make test")
def test_verdicts_and_signs_have_colours(dual: Cli) -> None:
    dual.run("add", "pod1")

    assert "\x1b[32mready" in on_a_terminal(dual, "list")
    assert "\x1b[32mok" in on_a_terminal(dual, "check")
    (pod,) = dual.pods()
    added = on_a_terminal(dual, "add", "pod2", "--diff")
    assert "\x1b[32m+ pod2: link eth0" in added
    assert "\x1b" not in on_a_terminal(dual, "add", "pod3", "--diff", env={"NO_COLOR": "1"})
    assert "\x1b" not in dual.run("add", "pod4", "--diff").stdout
    from netlink.namespace import remove_namespace

    remove_namespace(pod["netns"])
    assert "\x1b[31mno sandbox" in on_a_terminal(dual, "list")


def test_wide_is_a_table_for_all_that_follows_a_table(dual: Cli) -> None:
    assert "\n+ pod1: link eth0" in dual.run("add", "pod1", "--diff", "-o", "wide").stdout
