"""The firewall plugin by iptables: the reference's rules, so that either suite takes over the other's pods."""

from pathlib import Path
from typing import Any

import pytest

from tests.cli import REFERENCE_BIN_DIR
from tests.node.firewall_chains import Chain, iptables_rules
from tests.nodes import Node

LEGACY = Path("/usr/sbin/xtables-legacy-multi")
IPTABLES = {"backend": "iptables"}

pytestmark = pytest.mark.skipif(
    not (REFERENCE_BIN_DIR / "firewall").exists(), reason=f"no reference plugins in {REFERENCE_BIN_DIR}"
)


def of_pods(node: Node) -> list[str]:
    return [rule for rule in iptables_rules(node) if rule.startswith(("-A CNI-FORWARD -d", "-A CNI-FORWARD -s"))]


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
@pytest.mark.parametrize(("policy", "admin"), [("open", ""), ("same-bridge", "OUR-ADMINS")])
def test_the_rules_are_the_references(make_node: Any, direct_bin_dir: Path, policy: str, admin: str) -> None:
    keys = IPTABLES | {"ingressPolicy": policy, "iptablesAdminChainName": admin}
    ours, theirs = (
        Chain(make_node(), direct_bin_dir, keys, of_reference=of_reference) for of_reference in (False, True)
    )

    for chain in (ours, theirs):
        chain.add("one")
        chain.add("two")

    # Debian's release writes no other policy into comments.
    found = [rule.replace("same-bridge|isolated", "same-bridge") for rule in iptables_rules(ours.node)]
    assert found == iptables_rules(theirs.node)
    assert len(found) >= 16
    assert ours.by_reference("CHECK", "one").code == 0
    theirs.succeed("CHECK", "one")


def test_an_isolated_bridge_has_the_references_rules(node: Node, direct_bin_dir: Path) -> None:
    """As ingresspolicy.go of its release 1.9 lists them; Debian's does not know the policy."""
    chain = Chain(node, direct_bin_dir, IPTABLES | {"ingressPolicy": "isolated"})

    chain.add("one")

    comment = '-m comment --comment "CNI firewall plugin rules (ingressPolicy: {})" -j'
    both, isolated = comment.format("same-bridge|isolated"), comment.format("isolated")
    assert [rule for rule in node.run(["iptables", "-S"]).stdout.splitlines() if "ingressPolicy" in rule] == [
        f"-A FORWARD {both} CNI-ISOLATION-STAGE-1",
        f"-A CNI-ISOLATION-STAGE-1 -i br0 -o br0 {isolated} DROP",
        f"-A CNI-ISOLATION-STAGE-1 -i br0 ! -o br0 {isolated} CNI-ISOLATION-STAGE-2",
        f"-A CNI-ISOLATION-STAGE-1 {both} RETURN",
        f"-A CNI-ISOLATION-STAGE-2 -o br0 {both} DROP",
        f"-A CNI-ISOLATION-STAGE-2 {both} RETURN",
    ]


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
@pytest.mark.parametrize(
    "keys", [IPTABLES, {}, {"ingressPolicy": "same-bridge"}], ids=["iptables", "default", "policy"]
)
def test_the_references_pods_are_checked_and_removed(node: Node, direct_bin_dir: Path, keys: dict[str, str]) -> None:
    chain = Chain(node, direct_bin_dir, keys, of_reference=True)
    chain.add("other")
    before = iptables_rules(node)
    chain.add("one")

    chain.succeed("CHECK", "one")
    chain.succeed("DEL", "one")

    assert iptables_rules(node) == before
    assert "cni_harness" not in str(node.nft())
    assert chain.fail("CHECK", "one")["code"] == 999


def test_our_pods_are_checked_and_removed_by_the_reference(node: Node, direct_bin_dir: Path) -> None:
    chain = Chain(node, direct_bin_dir, IPTABLES)
    chain.add("one")

    assert chain.by_reference("CHECK", "one").code == 0
    assert chain.by_reference("DEL", "one").code == 0
    assert of_pods(node) == []
    chain.ours.succeed("GC", "", **{"cni.dev/valid-attachments": []})
    assert "cni_harness" not in str(node.nft())


@pytest.mark.parametrize("policy", ["open", "same-bridge"])
def test_repair_puts_the_references_rules_back_in_its_form(node: Node, direct_bin_dir: Path, policy: str) -> None:
    chain = Chain(node, direct_bin_dir, {"ingressPolicy": policy}, of_reference=True)
    chain.add("one")
    before = iptables_rules(node)
    node.run(["nft", "flush", "ruleset"])

    for _ in range(2):
        chain.succeed("REPAIR", "one", cniVersion="1.1.0")

    found = [rule.replace("same-bridge|isolated", "same-bridge") for rule in iptables_rules(node)]
    assert found == before
    assert "cni_harness" not in str(node.nft())
    assert chain.by_reference("CHECK", "one").code == 0
    assert chain.by_reference("DEL", "one").code == 0
    assert of_pods(node) == []


@pytest.mark.parametrize(
    "remove",
    [
        ["iptables", "-F"],
        ["ip6tables", "-F", "CNI-FORWARD"],
        ["iptables", "-D", "CNI-FORWARD", "-s", "10.88.0.2/32", "-j", "ACCEPT"],
        ["nft", "flush", "ruleset"],
    ],
)
def test_check_finds_a_loss_and_repair_mends_it(node: Node, direct_bin_dir: Path, remove: list[str]) -> None:
    chain = Chain(node, direct_bin_dir, IPTABLES)
    chain.add("one")
    before = iptables_rules(node)
    node.run(remove)

    error = chain.fail("CHECK", "one")

    assert (error["code"], "is not admitted by iptables" in error["msg"]) == (999, True)
    chain.succeed("REPAIR", "one")
    chain.succeed("CHECK", "one")
    assert sorted(iptables_rules(node)) == sorted(before)


def test_the_older_iptables_is_found(node: Node, direct_bin_dir: Path, tmp_path: Path) -> None:
    if not LEGACY.exists():
        pytest.skip(f"no {LEGACY}")
    if node.run(["iptables-legacy", "-P", "FORWARD", "DROP"], check=False).returncode:
        pytest.skip("this machine's kernel has no tables of the older iptables")
    for program in ("iptables", "ip6tables", "iptables-restore", "ip6tables-restore"):
        (tmp_path / program).symlink_to(LEGACY)
    chain = Chain(node, direct_bin_dir)

    result = chain.attach("one")
    chain.adder.succeed("ADD", "one", prevResult=result, extra_env={"PATH": f"{tmp_path}:/usr/sbin:/usr/bin:/bin"})

    assert any("-s 10.88.0.2/32" in rule for rule in iptables_rules(node, "legacy"))
    chain.succeed("CHECK", "one")
    chain.ours.succeed("DEL", "one", netns="")
    assert not any("10.88.0.2" in rule for rule in iptables_rules(node, "legacy"))


def test_one_restore_for_each_family(node: Node, direct_bin_dir: Path, tmp_path: Path) -> None:
    for name in ("iptables", "ip6tables"):
        for ending in ("", "-nft", "-restore", "-nft-restore"):
            script = f'#!/bin/sh\necho {name}{ending} >> {tmp_path}/run\nexec /usr/sbin/{name}{ending} "$@"\n'
            (tmp_path / f"{name}{ending}").write_text(script)
            (tmp_path / f"{name}{ending}").chmod(0o755)
    path = {"extra_env": {"PATH": f"{tmp_path}:/usr/bin:/bin"}}
    chain = Chain(node, direct_bin_dir, IPTABLES | {"ingressPolicy": "isolated"})
    result = chain.attach("one")

    for verb in ("ADD", "DEL"):
        chain.adder.succeed(verb, "one", prevResult=result, **path)

        ran = (tmp_path / "run").read_text().split()
        assert sorted(program.partition("-")[0] for program in ran if program.endswith("-restore")) == [
            "ip6tables",
            "iptables",
        ]
        (tmp_path / "run").unlink()


def test_status_names_a_missing_program(node: Node, direct_bin_dir: Path) -> None:
    chain = Chain(node, direct_bin_dir, IPTABLES)
    chain.ours.succeed("STATUS", "")
    node.run(["sh", "-c", "mount --make-private $(stat -c %m /usr/sbin/) && mount -t tmpfs none /usr/sbin"])

    error = chain.ours.fail("STATUS", "", extra_env={"PATH": "/usr/bin:/bin"})

    assert (error["code"], error["msg"].startswith("no program iptables")) == (50, True)


def test_a_family_that_fails_takes_the_other_with_it(node: Node, direct_bin_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "ip6tables-restore").write_text("#!/bin/sh\necho refused >&2\nexit 2\n")
    (tmp_path / "ip6tables-restore").chmod(0o755)
    for program in ("iptables", "ip6tables"):
        node.run([program, "-P", "FORWARD", "DROP"])
    chain = Chain(node, direct_bin_dir)
    result = chain.attach("one")

    path = {"extra_env": {"PATH": f"{tmp_path}:/usr/sbin:/usr/bin:/bin"}}
    error = chain.fail("ADD", "one", prevResult=result, **path)

    assert "ip6tables-restore -w --noflush: exit code 2: refused" in error["msg"]
    assert of_pods(node) == []
    assert "cni_harness" not in str(node.nft())
