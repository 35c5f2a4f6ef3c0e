"""The rights to make nodes: those of root, or without root those of a user namespace that the program makes itself."""

import click

from harness.cli.options import say

__all__ = ["obtain_privileges"]


def obtain_privileges(verb: str) -> None:
    """Go on if this process may make network namespaces, otherwise in a user namespace.

    Raises ClickException if the kernel refuses that; it names the setting.
    """
    from netlink.user_namespace import has_capabilities

    if has_capabilities():
        return
    from harness.runtime.user_namespace import UserNamespaceError, become_root

    try:
        become_root()
    except UserNamespaceError as error:
        raise click.ClickException(
            f"`cni-harness {verb}` makes network namespaces: it needs root (sudo), or a user namespace, which this"
            f" kernel refuses: {error}"
        ) from error
    say("Without root: the nodes are in a user namespace. See docs/conformance.md for what needs real root.")
