"""The pod's network namespace, opened alike by every plugin; imports nothing slow."""

from netlink.namespace import Namespace, open_namespace
from skel import CniError, Code

__all__ = ["open_pod"]


def open_pod(path: str) -> Namespace:
    """Open the pod's network namespace.

    Raises CniError (4: SPEC.md section 5, an invalid variable) that names CNI_NETNS if the path is missing or is no
    network namespace.
    """
    try:
        return open_namespace(path)
    except OSError as error:
        message = f'CNI_NETNS: cannot open the network namespace "{path}": {error.strerror}'
        raise CniError(Code.INVALID_ENVIRONMENT, message) from None
