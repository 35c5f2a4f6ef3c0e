"""`cni-harness`: the entry point, and the one place where an error becomes a line and an exit code."""

import os
import sys
from importlib import import_module
from typing import Final

import click

from harness.interruption import interrupted_once
from harness.options import Settings, global_options, say
from harness.output import abandon, message_of

__all__ = ["cli", "main"]

_VERBS: Final = {
    "add": "add",
    "del": "delete",
    "check": "check",
    "list": "list",
    "inspect": "inspect",
    "exec": "exec",
    "status": "status",
    "gc": "gc",
    "version": "version",
    "conformance": "conformance",
    "snapshot": "snapshot",
    "diff": "diff",
    "bench": "bench",
    "networks": "networks",
    "validate": "validate",
    "serve": "serve",
    "doctor": "doctor",
    "install": "install",
    "uninstall": "uninstall",
}
"""Each verb and its module in `harness.commands`, in the order of the help."""

_INTERRUPTED: Final = 130
_TRACEBACK_VERBOSITY: Final = 2


class _Verbs(click.Group):
    """Loads a verb's module when it is wanted, so that each starts with no more than it needs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the verbs, the common ones first."""
        del ctx
        return list(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the verb."""
        del ctx
        if cmd_name not in _VERBS:
            return None
        command: click.Command = import_module(f"harness.commands.{_VERBS[cmd_name]}").command
        return command


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@global_options(environment=True)
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Give pods a network with CNI plugins, as a container runtime does, and look at what they made.

    The options below may stand before or after the verb; variables that are empty count as not set. With nothing
    configured, `cni-harness add pod1` uses the networks and plugins of this project.

    Shell completion: eval "$(_CNI_HARNESS_COMPLETE=bash_source cni-harness)", or zsh_source, or fish_source.
    """
    if os.environ.get("NO_COLOR"):
        ctx.color = False


def main() -> None:
    """Run the command line and exit: 0 when all of it succeeded, 2 when it was not understood, otherwise 1.

    A signal ends it as soon as what was begun is finished, with 128 and the signal's number.
    """
    sys.exit(_run(sys.argv[1:]))


def _run(arguments: list[str]) -> int:
    # What it makes holds executables and records that root trusts, and plugins expect the umask of a runtime.
    os.umask(os.umask(0o077) | 0o022)
    settings = Settings()
    try:
        with interrupted_once():
            code = cli.main(arguments, prog_name="cni-harness", standalone_mode=False, obj=settings)
            sys.stdout.flush()
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx is not None else "cni-harness"
        return _fail(f"{error.format_message()} (see `{path} --help`)", error.exit_code)
    except click.ClickException as error:
        return _fail(error.format_message(), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        return _fail("interrupted", _INTERRUPTED)
    except BrokenPipeError:
        abandon(sys.stdout)
        return 1
    except Exception as error:  # noqa: BLE001 -- rendered, and with -vv shown whole
        if settings.verbose >= _TRACEBACK_VERBOSITY:
            import traceback

            say(traceback.format_exc().rstrip())
        return _fail(message_of(error), 1)
    return code if isinstance(code, int) else 0


def _fail(message: str, code: int) -> int:
    say(f"Error: {' '.join(message.split())}")
    return code


if __name__ == "__main__":
    main()
