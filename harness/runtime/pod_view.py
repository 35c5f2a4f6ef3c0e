"""A pod's presentation, in a table or as a document."""

from harness.runtime.pod_record import Pod, PodNetwork
from harness.runtime.sandbox import sandbox_exists
from harness.runtime.sandbox_life import SandboxState


def pod_document(pod: Pod) -> dict[str, object]:
    """Return a pod for JSON and YAML; `result` is null for a network whose ADD never succeeded."""
    return {
        "name": pod.name,
        "namespace": pod.namespace,
        "containerID": pod.container_id,
        "uid": pod.uid,
        "netns": pod.netns,
        "state": pod_state(pod),
        "created": pod.created,
        "networks": [
            {"name": network.name, "ifname": network.ifname, "result": network.result} for network in pod.networks
        ],
    }


def pod_state(pod: Pod) -> str:
    """Return "ready"; "ended"; "no sandbox" if the pod's network namespace is gone, as after a reboot; "incomplete"."""
    if pod.state is SandboxState.READY:
        if pod.netns and not sandbox_exists(pod.netns):
            return "no sandbox"
        return "ready" if pod.is_ready() else "ended"
    return "ended" if pod.state is SandboxState.NOTREADY else "incomplete"


def addresses(network: PodNetwork) -> str:
    """Return the addresses of an attachment, with prefix lengths."""
    return ", ".join(str(ip.address) for ip in network.decoded().ips)


def gateways(network: PodNetwork) -> str:
    """Return the gateways of an attachment."""
    return ", ".join(str(ip.gateway) for ip in network.decoded().ips if ip.gateway is not None)


def interface(network: PodNetwork) -> str:
    """Return the interfaces of an attachment in the pod; "" if it has none, as with noop."""
    result = network.decoded()
    named = [link.name for link in result.interfaces if link.sandbox]
    # Results below 0.3.0 have addresses, but no interfaces.
    return ", ".join(named) or (network.ifname if result.ips else "")


def host_links(network: PodNetwork) -> list[str]:
    """Return the interfaces of an attachment on the node; the first is the bridge, if the result names one."""
    return [link.name for link in network.decoded().interfaces if not link.sandbox]
