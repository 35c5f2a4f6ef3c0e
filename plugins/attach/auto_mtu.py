"""`mtu: "auto"`: the MTU of the path that a pod's packets take, less the overhead of an overlay."""

from lean.typing import Any
from plugins.attach.driver import Driver
from plugins.attach.keys import MTU_MIN
from skel import CniError, Code

__all__ = ["check_mtu", "settle_mtu"]


def settle_mtu(driver: Driver[Any]) -> None:
    """Replace "auto" in the driver's configuration by bytes, before ADD makes anything.

    Without a default route it is 0, the kernel's own default. Raises CniError (7) if the overhead leaves too little.
    """
    found = driver.path_mtu()
    if found is None:
        driver.args.log('mtu: "auto": there is no default route: the MTU is the kernel\'s default')
        driver.config.mtu = 0
        return
    if found.mtu < MTU_MIN:
        message = f"mtuOverhead: expected at most {found.mtu + found.overhead - MTU_MIN}, got {found.overhead}"
        raise CniError(Code.INVALID_CONFIG, f"{message}: it leaves {found.mtu} bytes ({found.reason})")
    driver.config.mtu = found.mtu


def check_mtu(driver: Driver[Any]) -> None:
    """Raise CniError (999) if the MTU of the pod's interface differs from the one that "auto" stands for now."""
    found, inner = driver.path_mtu(), driver.inner
    if found is not None and inner.mtu != found.mtu:
        message = f'MTU of "{inner.name}" is {inner.mtu}, mtu: "auto" stands for {found.mtu} ({found.reason})'
        raise CniError(Code.INTERNAL, message)
