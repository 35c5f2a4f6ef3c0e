"""Files of the kernel that containers do not see, or may not write (Kubernetes' securitycontext/util.go)."""

from typing import Final

MASKED_PATHS: Final = [
    *(f"/proc/{name}" for name in ("acpi", "asound", "interrupts", "kcore", "keys", "latency_stats")),
    *(f"/proc/{name}" for name in ("timer_list", "timer_stats", "sched_debug", "scsi")),
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
]
READONLY_PATHS: Final = [f"/proc/{name}" for name in ("bus", "fs", "irq", "sys", "sysrq-trigger")]
