"""The rights to make nodes: those of root, or without root those of a user namespace that the program makes itself."""

import click

from harness.output import say


def obtain_privileges(verb: str, *, keeps: bool = False) -> None:
    """Go on if this process may make network namespaces, otherwise in a user namespace.

    Raises ClickException if the kernel refuses that; it names the setting. `keeps` is for nodes that stay, which is
    impossible there: it raises ClickException, too.
    """
    from netlink.own_namespaces import has_capabilities

    if has_capabilities():
        return
    if keeps:
        raise click.ClickException("--keep needs real root: the nodes of a user namespace end with the process")
    from harness.runtime.user_namespace import UserNamespaceError, become_root

    try:
        become_root()
    except UserNamespaceError as error:
        raise click.ClickException(
            f"`cni-harness {verb}` makes network namespaces: it needs root (sudo), or a user namespace, which this"
            f" kernel refuses: {error}"
        ) from error
    say("Without root: the nodes are in a user namespace. See docs/conformance.md for what needs real root.")
