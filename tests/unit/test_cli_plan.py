"""The meaning of the options of `add`."""

import pytest

from harness.cli.plan import AddOptions, PlanError, parse_port, plan_networks
from harness.libcni.networks import parse_network_list
from harness.runtime.kubernetes import PodNameError, check_pod, pod_cni_args
from harness.runtime.resolv_conf import pod_resolv_conf, render_dns
from skel.result import DNS

NETWORK = parse_network_list(b'{"cniVersion": "1.0.0", "name": "net", "plugins": [{"type": "noop"}]}')


@pytest.mark.parametrize(
    ("text", "entry"),
    [
        ("8080:80", {"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}),
        ("8080:80/UDP", {"hostPort": 8080, "containerPort": 80, "protocol": "udp"}),
        ("192.0.2.1:1:65535/sctp", {"hostPort": 1, "containerPort": 65535, "protocol": "sctp", "hostIP": "192.0.2.1"}),
        ("[2001:db8::1]:53:53/udp", {"hostPort": 53, "containerPort": 53, "protocol": "udp", "hostIP": "2001:db8::1"}),
    ],
)
def test_port(text: str, entry: dict[str, object]) -> None:
    assert parse_port(text) == entry


@pytest.mark.parametrize(
    "text",
    [
        "80",
        "0:80",
        "80:0",
        "65536:80",
        "a:80",
        "8080:80/icmp",
        "1.2.3:80:80",
        "[::g]:80:80",
        "::1:80:80",
        "80:80/tcp\n",
    ],
)
def test_invalid_port_options_are_refused(text: str) -> None:
    with pytest.raises(PlanError, match="-p "):
        parse_port(text)


@pytest.mark.parametrize("name", ["a", "pod-1", "0.b-c.d", "x" * 253])
def test_pod_name(name: str) -> None:
    check_pod("default", name)
    check_pod(name, "pod1")


@pytest.mark.parametrize("name", ["", "-a", "a-", "A", "a_b", "a/b", "..", "a..b", "a\n", "x" * 254, "é"])
def test_invalid_pod_names_and_namespaces_are_refused(name: str) -> None:
    with pytest.raises(PodNameError, match="pod name "):
        check_pod("default", name)
    with pytest.raises(PodNameError, match="namespace "):
        check_pod(name, "pod1")


def test_arguments_of_a_pod_in_containerds_spelling() -> None:
    pairs = pod_cni_args("ns", "pod", "c0ffee", "u-i-d")

    assert ";".join(f"{key}={value}" for key, value in pairs.items()) == (
        "IgnoreUnknown=1;K8S_POD_NAMESPACE=ns;K8S_POD_NAME=pod;K8S_POD_INFRA_CONTAINER_ID=c0ffee;K8S_POD_UID=u-i-d"
    )


def test_resolv_conf_has_every_part_of_dns() -> None:
    dns = DNS(
        nameservers=["192.0.2.1", "2001:db8::1"], domain="d.example", search=["a", "b"], options=["ndots:5", "rotate"]
    )

    assert render_dns(dns) == (
        "nameserver 192.0.2.1\nnameserver 2001:db8::1\ndomain d.example\nsearch a b\noptions ndots:5 rotate\n"
    )


def test_resolv_conf_has_no_second_line_of_a_value() -> None:
    dns = DNS(
        nameservers=["192.0.2.1\nnameserver 192.0.2.66"],
        domain="a\rb",
        search=["c\noptions x"],
        options=["ndots:5\u2028\n", "edns0"],
    )

    lines = render_dns(dns).splitlines()

    assert [line.split()[0] for line in lines] == ["nameserver", "domain", "search", "options"]


def test_resolv_conf_is_of_the_first_network_with_dns() -> None:
    found = pod_resolv_conf([DNS(), DNS(domain="first"), DNS(domain="second")])

    assert "domain first" in found
    assert "second" not in found


@pytest.mark.parametrize("text", ['{"speed": NaN}', '{"speed": [Infinity]}', '{"speed": 1e999}', "[" * 100_000])
def test_invalid_json_in_cap_args_is_refused(text: str) -> None:
    with pytest.raises(PlanError, match="CAP_ARGS in the environment: "):
        plan_networks([NETWORK], AddOptions(environ={"CAP_ARGS": text}))
