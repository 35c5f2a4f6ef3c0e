"""`cni-harness conformance runtime`: witnesses for our own pods, and the report."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.conformance.runtime_checks.catalogue import runtime_checks
from tests.cli import Cli

pytestmark = pytest.mark.sudo


@pytest.fixture
def cli(make_cli: Callable[[Path], Cli], tmp_path: Path) -> Cli:
    """A command line whose only plugins are witnesses."""
    made = make_cli(tmp_path / "bin")
    folders = ["--bin-dir", str(made.bin_dir), "--conf-dir", str(made.conf_dir)]
    made.run("conformance", "runtime", "--install", str(tmp_path / "records"), *folders)
    return made


def judged(cli: Cli, records: Path, *options: str, code: int = 0) -> dict[str, Any]:
    """The findings by check."""
    run = cli.run("conformance", "runtime", "--judge", str(records), "-o", "json", *options, check=False)
    assert run.returncode == code, run.stdout + run.stderr
    return {each["id"]: each for each in json.loads(run.stdout)["checks"]}


@pytest.mark.slow("the judge of runtimes in full; a MUST that is violated is in make test")
def test_our_pods_are_treated_as_the_specification_demands(cli: Cli, tmp_path: Path) -> None:
    cli.add("one", "--network", "witness", "--publish", "8080:80")
    cli.add("two", "--network", "witness")
    cli.add("three", "--network", "witness-no-check", "--network", "witness-no-gc")
    cli.add("four", "--network", "witness-inlined")
    assert (
        "witness-failing-2 fails ADD by its script"
        in cli.run("add", "five", "--network", "witness-failing", check=False).stderr
    )
    cli.run("check")
    [listed] = cli.conf_dir.glob("*-witness.conflist")
    text = listed.read_text()
    listed.write_text(text.replace('"upper"', '"changed after the ADD"'))
    cli.run("del", "one")
    listed.write_text(text)
    cli.run("gc", check=False)
    cli.run("del", "--all")

    found = judged(cli, tmp_path / "records", "--speaks", "1.1.0")

    assert {name for name, check in found.items() if check["outcome"] in {"fail", "warn"}} == set()
    unexamined = {name for name, check in found.items() if check["outcome"] == "not examined"}
    unsaid = {"add-error-reported", "add-result-reported", "gc-errors-reported", "network-name", "plugin-type"}
    assert unexamined == unsaid | {"del-stops-at-error", "status-no-attachment", "version-input"}


def test_a_result_of_witnesses_is_true(cli: Cli) -> None:
    [pod] = cli.add("one", "--network", "witness")

    result = pod["networks"][0]["result"]
    host, own = result["interfaces"]
    [link] = ip(pod["netns"], "address", "show", "dev", own["name"])
    found = [f"{each['local']}/{each['prefixlen']}" for each in link["addr_info"] if each["family"] == "inet"]
    assert (link["address"], found) == (own["mac"], [each["address"] for each in result["ips"]])
    routes = [each["dst"] for each in ip(pod["netns"], "route", "show") if each.get("scope") == "link"]
    assert {each["dst"].removesuffix("/32") for each in result["routes"]} <= set(routes)
    [there] = ip(f"/run/netns/{cli.node}", "link", "show", "dev", host["name"])
    assert (there["address"], there["operstate"]) == (host["mac"], "UP")


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_violated_must_of_a_runtime_sets_the_exit_code(cli: Cli, tmp_path: Path) -> None:
    pod = cli.add("one", "--network", "witness-no-gc")[0]["networks"][0]
    judged(cli, tmp_path / "records")
    cli.run("del", "one")
    [plugin] = cli.bin_dir.glob("witness-no-gc-1")
    forgotten = {"CNI_COMMAND": "ADD", "CNI_CONTAINERID": "stray", "CNI_IFNAME": pod["ifname"], "CNI_PATH": ""}
    subprocess.run([plugin], input=b"{}", env={**cli.environment, **forgotten}, check=False, capture_output=True)

    found = judged(cli, tmp_path / "records", "--check", "variables-set", code=1)

    [breach] = found["variables-set"]["breaches"]
    assert breach["got"] == "without CNI_NETNS"
    table = cli.run("conformance", "runtime", "--judge", str(tmp_path / "records"), "--failures", check=False).stdout
    assert "sent:     CNI_COMMAND=ADD CNI_CONTAINERID=stray " in table


def test_the_catalogue_names_every_check_and_the_sentences_without_one(cli: Cli) -> None:
    document = cli.json("conformance", "runtime", "--list")

    assert [check["id"] for check in document["checks"]] == [check.id for check in runtime_checks()]
    assert len(document["checks"]) >= 50
    assert all(each["side"] == "runtime" and each["why_not"] for each in document["without_check"])


@pytest.mark.mostly_slow(3, "each option; a part is in make test")
@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "one of --install, --judge, --runtime and --list is wanted"),
        (["--list", "--runtime", "libcni"], "one of --install, --judge, --runtime and --list is wanted"),
        (["--judge", "/nonexistent"], "no records of witnesses"),
        (["--list", "--check", "del-twice"], "--check del-twice: see `cni-harness conformance runtime --list`"),
        (["--runtime", "libcni", "--network", "mine"], "--network mine: there is witness, "),
        (["--install", "/tmp/nowhere", "--bin-dir", "/a:/b"], "--install needs one folder for executables"),
    ],
)
def test_wrong_command_line_names_the_missing_option(cli: Cli, args: list[str], message: str) -> None:
    run = cli.run("conformance", "runtime", *args, check=False)

    assert run.returncode in {1, 2}
    assert message in run.stderr


def test_a_list_that_the_specification_forbids_is_installed_if_it_is_named(cli: Cli, tmp_path: Path) -> None:
    folders = ["--bin-dir", str(tmp_path / "other-bin"), "--conf-dir", str(tmp_path / "other-conf")]

    cli.run("conformance", "runtime", "--install", str(tmp_path / "others"), *folders, "--network", "witness-mistyped")

    [written] = (tmp_path / "other-conf").glob("*.conflist")
    assert written.name.endswith("-witness-mistyped.conflist")


def ip(netns: str, *args: str) -> list[dict[str, Any]]:
    """The kernel's answer in a network namespace."""
    command = ["nsenter", f"--net={netns}", "ip", "-json", *args]
    listing: list[dict[str, Any]] = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return listing
