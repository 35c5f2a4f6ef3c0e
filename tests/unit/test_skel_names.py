"""Names that come from outside and are fit; those that are not are in the table of malformed inputs."""

import pytest

from skel.environment import check_container_id, check_ifname, check_network_name, parse_cni_args, select_cni_args


@pytest.mark.parametrize("name", ["a", "0", "pod-1", "a_b.c-d", "A..b", "0" * 64, "x" * 1000])
def test_container_ids_and_network_names_of_the_specification_are_fit(name: str) -> None:
    check_container_id(name)
    check_network_name(name)


@pytest.mark.parametrize(
    "ifname",
    [
        "eth0",
        "lo",
        "fifteen-bytes-0",
        "...",
        "a.b",
        "-",
        "\u00e9" * 7,
        "eth0@if7",
    ],
)
def test_interface_names_that_the_kernel_takes_are_fit(ifname: str) -> None:
    check_ifname(ifname)


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("", {}),
        ("IP=10.1.0.5", {"IP": "10.1.0.5"}),
        ("A=;B=2", {"A": "", "B": "2"}),
        ("A=1;A=2", {"A": "2"}),
        ("IP=fd00::5; B = 2", {"IP": "fd00::5", " B ": " 2"}),
    ],
)
def test_cni_args_are_pairs(text: str, pairs: dict[str, str]) -> None:
    assert parse_cni_args(text) == pairs


def test_unknown_cni_args_are_not_passed_to_the_plugin() -> None:
    assert select_cni_args({"IgnoreUnknown": "True", "IP": "a", "X": "b"}, ("IP",)) == {"IP": "a"}
    assert select_cni_args({"IgnoreUnknown": "0", "IP": "a"}, ("IP",)) == {"IP": "a"}
