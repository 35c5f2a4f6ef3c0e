#!/opt/cni-harness/.venv/bin/python -I
"""lend-link: lends a pod a network interface of the node; DEL and GC take it back under its own name."""

from skel import (
    UNKNOWN,
    Args,
    CniError,
    Code,
    Config,
    Interface,
    Plugin,
    Result,
    Undo,
    field,
    interface_name,
    main,
    string,
)
from skel.state_file import StateFiles
from skel.steps import Steps


class LendConfig(Config):
    """The keys of the specification, and `device`: the name of an interface of the node."""

    device: str = field(interface_name, default="")
    data_dir: str = field(string, default="/run/lend-link", unreadable=UNKNOWN)


def loans(args: Args[LendConfig]) -> StateFiles:
    """Return the network's loans. They are in /run: no interface is lent when the node has started anew."""
    return StateFiles(f"{args.config.data_dir}/{args.config.name}")


def add(args: Args[LendConfig]) -> Result:
    """Move the interface into the pod and give it the name that the runtime wants."""
    from netlink.namespace import open_namespace
    from netlink.rtnl import Rtnl

    with Undo(args.log, args.interruption) as undo:
        undo.add(args.open_sockets.drop, "rtnl")  # after an error it may have unread answers
        node = args.open_sockets.get("rtnl", Rtnl)
        pod = undo.enter(open_namespace(args.netns))
        inside = undo.enter(Rtnl(pod))
        link = node.link(args.config.device)
        if link is None:
            raise CniError(Code.INVALID_CONFIG, f'device: no interface "{args.config.device}" on this node')
        loan = {"device": link.name, "mac": link.mac, "netns": args.netns}
        undo.add(take_back, args, (args.container_id, args.ifname))
        loans(args).write(args.container_id, args.ifname, loan)  # before the move: a crash leaves no unknown loan
        node.move_link(link.ifindex, pod, args.ifname)
        moved = inside.link(args.ifname)
        if moved is None:
            raise CniError(Code.TRY_AGAIN_LATER, f'"{args.ifname}" is gone from the pod')
        inside.set_up(moved.ifindex)
    return Result(interfaces=[Interface(name=moved.name, mac=moved.mac, mtu=moved.mtu, sandbox=args.netns)])


def take_back(args: Args[LendConfig], attachment: tuple[str, str]) -> None:
    """Move the interface to the node if it is in the pod, and forget the loan. A failure leaves the loan as it is."""
    from netlink.namespace import current_namespace, open_namespace
    from netlink.rtnl import Rtnl

    loan = loans(args).read(*attachment)
    if loan is None:
        return
    try:
        with open_namespace(str(loan["netns"])) as pod, current_namespace() as node, Rtnl(pod) as inside:
            for link in inside.links():
                if link.mac == loan["mac"]:  # by its name it might be another's: a move that fails may have moved it
                    inside.move_link(link.ifindex, node, str(loan["device"]))
    except FileNotFoundError:
        args.log(f"{loan['netns']} is gone: the kernel has moved {loan['device']} to the node, or removed it")
    loans(args).remove(*attachment)


def delete(args: Args[LendConfig]) -> None:
    """Take the interface back."""
    take_back(args, (args.container_id, args.ifname))


def gc(args: Args[LendConfig]) -> None:
    """Take back what attachments have that are no longer valid; an error of one does not keep the others."""
    if args.config.valid_attachments is None:
        return
    valid = {(attachment.container_id, attachment.ifname) for attachment in args.config.valid_attachments}
    with Steps() as steps:
        for attachment in loans(args).attachments():
            if attachment not in valid:
                steps.take(take_back, args, attachment)


PLUGIN = Plugin("lend-link", config=LendConfig, add=add, delete=delete, gc=gc)

if __name__ == "__main__":
    raise SystemExit(main(PLUGIN))
