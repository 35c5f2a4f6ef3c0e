"""loopback: brings `lo` of the pod up and down, for any CNI_IFNAME.

containerd calls it for each pod, at the same time as the pod's own networks. So it changes only that flag, and imports
no slow modules. In a chain it returns the previous result unchanged.
"""

from fast_stdlib.contextlib import contextmanager
from fast_stdlib.typing import TYPE_CHECKING, Final, Iterator
from plugins.attach.attachment import open_pod, refuse_own
from skel import Args, Cidr, CniError, Code, Config, Interface, IPConfig, Plugin, Result
from skel.versions import REFERENCE_RELEASE

if TYPE_CHECKING:
    from netlink.addresses import Loopback

_LOOPBACK: Final = "lo"
_NO_MAC = "00:00:00:00:00:00"


def add(args: Args[Config]) -> Result:
    """Bring `lo` up; its first address of each family is in the result. Raises CniError (4, 5, 999)."""
    with _loopback(args) as loopback:
        # Before the change, so that a refusal does not change the pod.
        _refuse_others(loopback.addresses())
        loopback.set_up()
        addresses = loopback.addresses()
    if args.prev_result is not None:
        return args.prev_result
    first_of_family = {address.version: address for address in reversed(addresses)}
    return Result(
        interfaces=[Interface(name=_LOOPBACK, mac=_NO_MAC, sandbox=args.netns)],
        ips=[IPConfig(address=first_of_family[version], interface=0) for version in sorted(first_of_family)],
    )


def check(args: Args[Config]) -> None:
    """Raise CniError: 999 if `lo` is down or lacks an address that ADD reported; also 4, 5."""
    with _loopback(args) as loopback:
        if not loopback.is_up():
            raise CniError(Code.INTERNAL, f"{_LOOPBACK} in {args.netns} is down")
        missing = [str(ip) for ip in _reported(args.prev_result) if ip not in loopback.addresses()]
    if missing:
        raise CniError(Code.INTERNAL, f"{_LOOPBACK} in {args.netns} has lost {', '.join(missing)}")


def delete(args: Args[Config]) -> None:
    """Bring `lo` down if the network namespace still exists. Raises CniError (5, 8)."""
    if not args.netns:  # runtimes send the empty path if the namespace is gone
        return
    from netlink.namespace import NotANamespaceError, open_namespace

    try:
        with open_namespace(args.netns) as sandbox:
            refuse_own(args, sandbox)
            from netlink.addresses import Loopback

            with Loopback(sandbox) as loopback:
                loopback.set_down()
    except FileNotFoundError:
        return
    except NotANamespaceError:
        args.log(f"{args.netns} is no network namespace any more")
    except OSError as error:
        raise CniError(Code.IO_FAILURE, f"{_LOOPBACK} in {args.netns}: {error.strerror}") from None


def repair(_: Args[Config]) -> None:
    """Do nothing: all of it is in the pod."""


@contextmanager
def _loopback(args: Args[Config]) -> "Iterator[Loopback]":
    """Open `lo` of the pod. Raises CniError: 4 if CNI_NETNS is no network namespace, 5 if the kernel refuses."""
    from netlink.addresses import Loopback

    try:
        with open_pod(args) as sandbox, Loopback(sandbox) as loopback:
            yield loopback
    except OSError as error:
        raise CniError(Code.IO_FAILURE, f"{_LOOPBACK} in {args.netns}: {error.strerror}") from None


def _refuse_others(addresses: list[Cidr]) -> None:
    """Raise CniError (999) for an address that does not belong on a loopback interface."""
    others = [str(address) for address in addresses if not address.ip.is_loopback]
    if others:
        raise CniError(Code.INTERNAL, f"{_LOOPBACK} has a non-loopback address: {', '.join(others)}")


def _reported(prev_result: Result | None) -> list[Cidr]:
    """Return the addresses on the pod's `lo`; a chain's result may have none."""
    if prev_result is None:
        return []
    ours = {
        index
        for index, interface in enumerate(prev_result.interfaces)
        if interface.name == _LOOPBACK and interface.sandbox
    }
    return [ip.address for ip in prev_result.ips if ip.interface in ours]


PLUGIN = Plugin(
    "loopback",
    config=Config,
    add=add,
    check=check,
    delete=delete,
    repair=repair,
    version=REFERENCE_RELEASE,
)
