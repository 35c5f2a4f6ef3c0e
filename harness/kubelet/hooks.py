"""The hooks of a container: postStart and preStop (kubelet's lifecycle/handlers.go)."""

import time
from typing import Final, NamedTuple

from harness.cri.service import RuntimeService, RuntimeServiceError
from harness.kubelet.formats import format_pod, format_strings
from harness.kubelet.handlers import HandlerError, OnNode, http_get
from harness.kubelet.v1 import V1Pod
from harness.kubelet.v1_container import V1Container, V1Handler

_HTTP_TIMEOUT_S: Final = 60.0
_AGENT: Final = "kube-lifecycle/1.36"


class HookPlace(NamedTuple):
    """How hooks of a pod are run: in its containers, or by requests to its address from the node."""

    service: RuntimeService
    ip: str
    on_node: OnNode


class HookError(Exception):
    """A hook failed; the text is kubelet's."""


def run_hook(
    hook: V1Handler,
    pod: V1Pod,
    container: V1Container,
    container_id: str,
    place: HookPlace,
    *,
    timeout_s: float = 0,
) -> None:
    """Run a hook to its end; `timeout_s` seconds at most, 0 is no limit. Raises HookError."""
    whose = f'for Container "{container.name}" in Pod "{format_pod(pod)}" failed'
    if hook.exec is not None:
        named = f"Exec lifecycle hook ({format_strings(hook.exec.command)}) {whose}"
        try:
            result = place.service.exec_sync(container_id, hook.exec.command, timeout_s)
        except (RuntimeServiceError, TimeoutError) as error:
            raise HookError(f'{named} - error: {error}, message: ""') from error
        if result.exit_code:
            said = result.stdout + result.stderr
            raise HookError(
                f"{named} - error: command '{' '.join(hook.exec.command)}' exited with {result.exit_code}: "
                f'{result.stderr.strip()}, message: "{said.strip()}"'
            )
    elif hook.http_get is not None:
        named = f"HTTP lifecycle hook ({hook.http_get.path}) {whose}"
        try:
            # Any answer is success: kubelet looks at the transport alone.
            http_get(
                hook.http_get,
                container,
                place.ip,
                timeout_s=timeout_s or _HTTP_TIMEOUT_S,
                agent=_AGENT,
                on_node=place.on_node,
            )
        except (HandlerError, TimeoutError) as error:
            raise HookError(f'{named} - error: {error}, message: ""') from error
    elif hook.sleep is not None:
        time.sleep(min(hook.sleep.seconds, timeout_s or hook.sleep.seconds))
    else:
        raise HookError(f"Cannot run handler: invalid handler: {hook.encode()}")
