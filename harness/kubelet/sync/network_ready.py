"""Whether the network is ready (kubelet's runtimeState)."""

from typing import Final

from harness.cri.messages import NETWORK_READY, RuntimeStatus

NETWORK_NOT_READY: Final = "network is not ready"
"""Begins the error of a sync that fails for the network's sake; such a sync is repeated after one second."""


def network_error(status: RuntimeStatus) -> str | None:
    """Return why pods cannot get a network, None if they can; pods on the node's network start all the same.

    The condition is written as Go prints it, `<nil>` if it is missing.
    """
    why = "<nil>"
    for condition in status.conditions:
        if condition.type == NETWORK_READY:
            if condition.status:
                return None
            why = f"{NETWORK_READY}=false reason:{condition.reason} message:{condition.message}"
    return f"container runtime network not ready: {why}"
