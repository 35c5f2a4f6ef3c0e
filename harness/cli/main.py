"""The entry point of `cni-harness`. It imports the command line, which takes 100 ms, after it has made Ctrl-C quiet."""

import _signal  # type: ignore[import-not-found] # it has no stubs; `signal` is slower to load
import sys


def main() -> None:
    """Run the command line with the arguments of this process, and exit with its code.

    During imports SIGINT ends the process without a traceback, as it ends a program in C.
    """
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    from harness.cli.command_line import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
