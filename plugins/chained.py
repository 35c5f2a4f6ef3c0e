"""The parts that chained plugins share: they configure an attachment that an earlier plugin of the list has made."""

from lean.typing import Any
from skel import Args, CniError, Code, Result


def required_result(args: Args[Any]) -> Result:
    """Return prevResult, which a chained plugin returns as its own result. Raises CniError (7) if it is missing.

    SPEC.md section 4: the runtime passes the earlier plugin's result to ADD, the list's to the other verbs.
    """
    if args.prev_result is None:
        message = f"prevResult: required key is missing: {args.config.type} comes after an interface plugin in a list"
        raise CniError(Code.INVALID_CONFIG, message)
    return args.prev_result


def nothing(args: Args[Any]) -> None:
    """Do nothing: all that the plugin changes is in the pod's network namespace, and ends with it."""
    del args
