"""The command line of `cni-harness`, and the one place where an error becomes a line and an exit code."""

import os
import sys
from typing import Final

import click

from harness.cli.interruption import interrupted_once
from harness.cli.options import Settings, shared_options
from harness.cli.verbs import Verbs
from harness.output import abandon, message_of, say, write

_INTERRUPTED: Final = 130
_TRACEBACK_VERBOSITY: Final = 2


def _print_version(ctx: click.Context, param: click.Parameter, value: object) -> None:
    del param
    if value and not ctx.resilient_parsing:
        from harness.cli.version import own_version

        write(f"cni-harness {own_version()}")
        ctx.exit()


@click.group(
    cls=Verbs,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    subcommand_metavar="VERB ...",
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_version,
    help="Print the version of this program, and no more.",
)
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Give pods a network with CNI plugins, as a container runtime does, and show the results.

    The options below may stand before or after the verb; variables that are empty count as not set. With nothing
    configured, `cni-harness add pod1` uses the networks and plugins of this project.

    Shell completion: eval "$(_CNI_HARNESS_COMPLETE=bash_source cni-harness)", or zsh_source, or fish_source.
    """
    if os.environ.get("NO_COLOR"):
        ctx.color = False
    if ctx.invoked_subcommand is None:
        write(ctx.get_help())


cli.params += shared_options(environment=True)


def run(arguments: list[str]) -> int:
    """Run the command line and return the exit code: 0 if all of it succeeded, 2 if it was not understood, otherwise 1.

    A signal ends it as soon as operations under way are finished, with exit code 128 plus the signal's number.
    """
    # The program makes executables and records that root trusts. Plugins expect the umask of a runtime.
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
