"""Versions of the specification: their order, and the features of each."""

import json
from errno import EBADF
from pathlib import Path

import pytest

from skel import SUPPORTED, CniError, Code, dispatch
from skel.versions import at_least, parse
from tests.unit.sample_plugin import Sample, configuration


@pytest.mark.parametrize(
    ("version", "numbers"),
    [
        ("", (0, 1, 0)),
        ("0", (0, 0, 0)),
        ("1.1", (1, 1, 0)),
        ("0.10.2", (0, 10, 2)),
        ("1.1.0", (1, 1, 0)),
    ],
)
def test_a_version_is_up_to_three_numbers(version: str, numbers: tuple[int, int, int]) -> None:
    assert parse(version) == numbers


@pytest.mark.parametrize(
    "version",
    ["abc", "1.1.0.0", "-1.0.0", "1..0", ".", "1.0.0-rc1", " 1.0.0", "1.0.0\n", "1.\u0661.0", "1." + "9" * 5000],
)
def test_invalid_version_is_a_decoding_failure(version: str) -> None:
    with pytest.raises(CniError) as raised:
        parse(version)

    assert raised.value.code == Code.DECODING_FAILURE
    assert version in raised.value.msg


def test_versions_compare_as_numbers() -> None:
    ordered = ["", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "0.10.0", "1.0.0", "1.1", "1.1.1", "10.0.0"]

    assert [at_least(one, other) for one in ordered for other in ordered] == [
        ordered.index(one) >= ordered.index(other) for one in ordered for other in ordered
    ]


@pytest.mark.parametrize("version", SUPPORTED)
@pytest.mark.parametrize("verb", ["ADD", "DEL", "CHECK", "GC", "STATUS"])
def test_a_verb_needs_the_version_that_introduced_it(tmp_path: Path, verb: str, version: str) -> None:
    sample = Sample(tmp_path)
    allowed = at_least(version, {"CHECK": "0.4.0", "GC": "1.1.0", "STATUS": "1.1.0"}.get(verb, ""))

    outcome = sample.run(verb, configuration(cniVersion=version))

    assert [args.verb for args in sample.calls] == ([verb] if allowed else [])
    if not allowed:
        error = json.loads(outcome.stdout)
        assert error["code"] == Code.INCOMPATIBLE_VERSION
        assert error["msg"] == f"config version does not allow {verb}"
        assert version in error["details"]


@pytest.mark.parametrize("verb", ["ADD", "CHECK"])
@pytest.mark.parametrize("version", SUPPORTED)
def test_results_and_errors_carry_the_configurations_version(tmp_path: Path, verb: str, version: str) -> None:
    outcome = Sample(tmp_path).run(verb, configuration(cniVersion=version, mtu="wide"))
    result = Sample(tmp_path).run("ADD", configuration(cniVersion=version))

    assert json.loads(outcome.stdout)["cniVersion"] == version
    assert json.loads(result.stdout)["cniVersion"] == version


@pytest.mark.parametrize("absent", [..., None, ""])
def test_a_configuration_without_a_version_is_0_1_0(tmp_path: Path, absent: object) -> None:
    outcome = Sample(tmp_path).run("ADD", configuration(cniVersion=absent))

    assert json.loads(outcome.stdout)["cniVersion"] == "0.1.0"


def test_an_error_about_the_version_itself_is_in_the_current_one(tmp_path: Path) -> None:
    outcome = Sample(tmp_path).run("ADD", configuration(cniVersion="9.9.9"))

    assert json.loads(outcome.stdout) == {
        "cniVersion": "1.1.0",
        "code": 1,
        "msg": "incompatible CNI versions",
        "details": 'config is "9.9.9", plugin supports ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"]',
    }


def test_a_plugin_of_fewer_versions_refuses_the_others(tmp_path: Path) -> None:
    sample = Sample(tmp_path, versions=("0.4.0", "1.0.0"))

    codes = [sample.run("ADD", configuration(cniVersion=version)).code for version in SUPPORTED]

    assert codes == [1, 1, 1, 1, 0, 0, 1]
    assert json.loads(sample.run("VERSION", environ={"CNI_CONTAINERID": None}).stdout) == {
        "cniVersion": "1.1.0",
        "supportedVersions": ["0.4.0", "1.0.0"],
    }


def _closed() -> bytes:
    raise OSError(EBADF, "Bad file descriptor")


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"CNI_IFNAME": "dummy", "CNI_NETNS": "dummy", "CNI_PATH": "dummy"},
        {"CNI_CONTAINERID": "", "CNI_IFNAME": "", "CNI_NETNS": "", "CNI_PATH": "", "CNI_ARGS": ""},
        {"CNI_CONTAINERID": "../x", "CNI_IFNAME": "much/too/long/for/one", "CNI_ARGS": ";;;"},
    ],
    ids=["alone", "dummy", "empty", "nonsense"],
)
def test_version_needs_no_stdin_and_no_other_variable(tmp_path: Path, environ: dict[str, str]) -> None:
    outcome = dispatch(Sample(tmp_path).plugin, {"CNI_COMMAND": "VERSION", **environ}, _closed)

    assert outcome.code == 0
    assert outcome.stderr == b""
    assert json.loads(outcome.stdout) == {"cniVersion": "1.1.0", "supportedVersions": list(SUPPORTED)}
