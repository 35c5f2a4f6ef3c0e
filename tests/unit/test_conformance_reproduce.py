"""The command that repeats a finding."""

import shlex
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest

from harness.cli.conformance import command
from harness.cli.conformance_options import ConformanceOptions
from harness.cli.options import Settings, shared_options
from harness.conformance.finding import Outcome
from harness.conformance.reproduce import Arguments, command_of, this_program
from tests import findings

FAILED = findings.finding("del-twice", Outcome.FAIL)


def test_the_command_names_the_folders_the_list_the_plugin_the_check_and_the_other_options() -> None:
    network = replace(findings.NETWORK, source=Path("/lists/my net.conflist"))
    failed = FAILED._replace(subject=findings.subject("host-local", network=network))

    line = command_of(failed, Arguments(bin_dirs=(Path("/a"), Path("/b b")), options=("--timeout", "60")))

    assert shlex.split(line) == [
        *("cni-harness", "conformance", "--bin-dir", "/a:/b b", "--conf", "/lists/my net.conflist"),
        *("--plugin", "host-local", "--check", "del-twice", "--timeout", "60"),
    ]


def test_a_network_without_a_file_is_named_and_default_folders_are_not() -> None:
    line = command_of(FAILED, Arguments(program=("sudo", "cni-harness")))

    assert line == "sudo cni-harness conformance --network testnet --plugin bridge --check del-twice"


def test_a_check_that_was_not_examined_is_repeated_by_its_cause() -> None:
    unknown = findings.finding("del-twice", Outcome.NOT_EXAMINED, cause="add-prints-result")

    assert command_of(unknown, Arguments()).endswith("--check add-prints-result")


def test_the_program_is_started_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "cni-harness.pyz"
    file.touch(mode=0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/usr/bin")
    monkeypatch.setattr(sys, "argv", ["./cni-harness.pyz"])

    assert this_program() == (str(file),)
    file.chmod(0o644)
    assert this_program() == (sys.executable, str(file))
    file.chmod(0o755)
    monkeypatch.setenv("PATH", f"/usr/bin:{tmp_path}")
    assert this_program() == ("cni-harness.pyz",)
    for elsewhere in ("-c", "/x/harness/cli/main.py"):
        monkeypatch.setattr(sys, "argv", [elsewhere])
        assert this_program() == ("cni-harness",)


def test_every_option_that_a_check_depends_on_is_repeated() -> None:
    chosen = ("--check", "del-*", "--skip", "x", "--level", "MUST", "--section", "2", "--plugin", "p", "--jobs", "3")
    written = ("--report", "r.html", "--keep", "--known-failures", "k", "--save-known", "s", "--failures", "-v")
    wanted = (
        *("--profile", "ipam", "--fail-on", "MAY", "--prepare", "/usr/bin/env", "--pod-interface", "--traffic"),
        *("--watch", "/x", "--watch", "/y"),
        *("--repeat", "3", "--timeout", "9", "--chaos", "--points", "7"),
    )
    where = ("--bin-dir", "/", "--conf", "c", "--network", "n")
    given = [*chosen, *written, *wanted, *where]

    with command.make_context("conformance", [*given], obj=Settings()) as ctx:
        options = ConformanceOptions(**{each.name: ctx.params[each.name] for each in fields(ConformanceOptions)})
        arguments = options.arguments(ctx, [Path("/a")])

    assert arguments.options == wanted
    others = {"--list", "--junit", "--build", "--failures", "--keep", "--fail-fast", "--help", "--trace", "--record"}
    names = {name for each in command.params for name in each.opts if name.startswith("--")}
    shared = {name for each in shared_options() for name in each.opts}
    assert names - shared - others == {word for word in given if word.startswith("--")} - others - shared
