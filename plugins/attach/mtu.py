"""The MTU of the pod's interface: `mtu: "auto"`, the MTU of the path that a pod's packets take, and its CHECK."""

from fast_stdlib.typing import Any
from plugins.attach.driver import Adding, Attached, Driver
from plugins.attach.interface_config import AUTO, MTU_MIN
from skel import Args, CniError, Code


def settle_mtu(driver: Driver[Any], at: Adding) -> None:
    """Replace "auto" in the driver's configuration by bytes, before ADD makes anything.

    Without a default route it is 0, the kernel's own default. Raises CniError (7) if the overhead leaves too little.
    """
    found = driver.path_mtu(at)
    if found is None:
        driver.args.log('mtu: "auto": there is no default route: the MTU is the kernel\'s default')
        driver.config.mtu = 0
        return
    if found.mtu < MTU_MIN:
        message = f"mtuOverhead: expected at most {found.mtu + found.overhead - MTU_MIN}, got {found.overhead}"
        raise CniError(Code.INVALID_CONFIG, f"{message}: it leaves {found.mtu} bytes ({found.reason})")
    driver.config.mtu = found.mtu


def check_mtu(driver: Driver[Any], at: Attached) -> None:
    """Raise CniError (999) if the pod's interface has another MTU than "auto" stands for now, or than prevResult says.

    A result before 1.1.0 says none. A tuning plugin may have set another one, and the reference's does so without
    changing the result: its own CHECK compares the MTU then.
    """
    args, inner = driver.args, at.inner
    found = driver.path_mtu(at) if driver.config.mtu == AUTO else None
    if found is not None:
        expected, source = found.mtu, f'mtu: "auto" stands for {found.mtu} ({found.reason})'
    else:
        here = [each for each in at.result.interfaces if (each.name, each.sandbox) == (args.ifname, args.netns)]
        expected, source = here[0].mtu, f"prevResult says {here[0].mtu}"
    if expected not in {0, inner.mtu} and not _is_tuned(args):
        raise CniError(Code.INTERNAL, f'MTU of "{inner.name}" is {inner.mtu}, {source}')


def _is_tuned(args: Args[Any]) -> bool:
    """Tell whether a tuning plugin has saved the MTU that it replaced."""
    from plugins.tuning.saved import SavedFile, decoded

    content = SavedFile("", args.container_id, args.ifname).read()
    return content is not None and decoded(content, args.log).mtu != 0
