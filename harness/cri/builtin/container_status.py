"""Containers as CRI's messages."""

from harness.cri.builtin.container_store import ContainerRecord, Exit, ProcessRecord
from harness.cri.messages import CONTAINER_EXITED, Container, ContainerState, ContainerStatus


def container_message(record: ContainerRecord, state: ContainerState) -> Container:
    """Return a container as in a list."""
    config = record.config
    return Container(
        id=record.id,
        pod_sandbox_id=record.pod_sandbox_id,
        metadata=config.metadata,
        image=config.image,
        image_ref=record.image_id,
        state=state,
        created_at=record.created_at,
        labels=config.labels,
        annotations=config.annotations,
    )


def status_message(
    record: ContainerRecord, state: ContainerState, process: ProcessRecord | None, end: Exit | None
) -> ContainerStatus:
    """Return a container in full. An exit without a stored reason is Completed or Error, as in containerd."""
    status = ContainerStatus(**vars(container_message(record, state)))
    status.mounts = record.config.mounts
    status.log_path = record.log_path
    if process is not None:
        status.started_at = process.started_at
    if state is CONTAINER_EXITED and end is not None:
        status.finished_at = end.finished_at
        status.exit_code = end.code
        status.reason = end.reason or ("Error" if end.code else "Completed")
        status.message = end.message
    return status
