"""Whether the runtime, and its network, are ready (kubelet's updateRuntimeUp and runtimeState)."""

from typing import Final

from harness.cri.messages import NETWORK_READY, RUNTIME_READY, RuntimeStatus

__all__ = ["NETWORK_NOT_READY", "network_error", "runtime_error"]

NETWORK_NOT_READY: Final = "network is not ready"
"""Begins the error of a sync that fails for the network's sake; such a sync is repeated after one second."""


def network_error(status: RuntimeStatus) -> str | None:
    """Return why pods cannot get a network, None if they can; pods on the node's network start all the same."""
    condition = _condition(status, NETWORK_READY)
    return None if condition is None else f"container runtime network not ready: {condition}"


def runtime_error(status: RuntimeStatus) -> str | None:
    """Return why no container can start, None if they can."""
    condition = _condition(status, RUNTIME_READY)
    return None if condition is None else f"container runtime not ready: {condition}"


def _condition(status: RuntimeStatus, type: str) -> str | None:
    """Return a condition that is not true as Go prints it, `<nil>` if it is missing; None for a true one."""
    for condition in status.conditions:
        if condition.type == type:
            text = f"{type}=false reason:{condition.reason} message:{condition.message}"
            return None if condition.status else text
    return "<nil>"
