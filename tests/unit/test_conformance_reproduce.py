"""The command that repeats a finding."""

import shlex
from dataclasses import replace
from pathlib import Path

from harness.conformance.finding import Outcome
from harness.conformance.reproduce import Arguments, command_of
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
