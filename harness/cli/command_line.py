"""The command line of `cni-harness`: its verbs, and the one place where an error becomes a line and an exit code."""

import os
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Final, NamedTuple

import click
from click.shell_completion import CompletionItem

from harness.cli.interruption import interrupted_once
from harness.cli.options import Settings, shared_options
from harness.cli.verb_help import VerbCommand, VerbGroup
from harness.output import abandon, message_of, say, write

_INTERRUPTED: Final = 130  # 128 and the number of SIGINT, as shells have it
_TRACEBACK_VERBOSITY: Final = 2


class _Verb(NamedTuple):
    """A verb. `module` is in `harness.cli`; `summary` is at most 55 characters: a line of 80 columns."""

    module: str
    summary: str
    alias: str = ""


_GROUPS: Final[Mapping[str, Mapping[str, _Verb]]] = {
    "Pods": {
        "add": _Verb("add", "Make pods and join them to networks"),
        "del": _Verb("delete", "Delete pods, with everything made for them", "rm"),
        "check": _Verb("check", "CHECK pods: are their networks as ADD left them?"),
        "list": _Verb("list", "List pods with their networks", "ls"),
        "inspect": _Verb("inspect", "Show one pod's network in full"),
        "connect": _Verb("connect", "Join a pod that runs to one more network"),
        "disconnect": _Verb("disconnect", "Take a pod that runs off a network"),
        "exec": _Verb("exec", "Run a command in a pod"),
    },
    "Manifests": {
        "run": _Verb("run", "Run the pods of manifests, step by step as kubelet"),
        "get": _Verb("get", "List pods as kubectl does"),
        "describe": _Verb("describe", "Show a pod as kubectl does: containers, events"),
        "logs": _Verb("logs", "Print the output of a container"),
        "delete": _Verb("delete_pods", "End pods as kubectl does"),
        "kubelet": _Verb("kubelet", "Watch a folder of manifests, and keep its pods"),
        "image": _Verb("image", "Load, list and remove images"),
    },
    "Networks": {
        "networks": _Verb("networks", "List the networks that are configured"),
        "validate": _Verb("validate", "Check network lists and their plugins"),
        "status": _Verb("status", "Ask plugins whether they can serve an ADD"),
        "gc": _Verb("gc", "Free leftovers of pods that are not on record"),
        "repair": _Verb("repair", "Put back what firewalls' reloads took from pods"),
    },
    "Node": {
        "topology": _Verb("topology", "Show the node's links, and the pods they lead to"),
        "path": _Verb("path", "Follow a packet from a pod, and show where it ends"),
        "explain": _Verb("explain", "Write a page that explains how a pod came about"),
        "diagnose": _Verb("diagnose", "Find faults of networks, with cause and remedy"),
        "snapshot": _Verb("snapshot", "Show the state of the node and its pods"),
        "diff": _Verb("diff", "Compare a snapshot with another, or with now"),
    },
    "Cluster": {
        "agent": _Verb("agent", "Lead packets of pods to other nodes"),
        "nodes": _Verb("nodes", "Make many nodes on this machine, and list them"),
    },
    "Plugins": {
        "version": _Verb("version", "Show the versions of this program and of plugins"),
        "conformance": _Verb("conformance", "Hold plugins to the CNI specification"),
        "new-plugin": _Verb("new_plugin", "Write a Python distribution with a new plugin"),
        "bench": _Verb("bench", "Measure how fast plugins are, side by side"),
    },
    "Installation": {
        "doctor": _Verb("doctor", "Show which plugins the runtimes here execute"),
        "install": _Verb("install", "Put this project's plugins where runtimes look"),
        "uninstall": _Verb("uninstall", "Take back what `install` put there"),
        "serve": _Verb("serve", "Run the server of this project's plugins"),
    },
    "Help": {
        "options": _Verb("list_options", "List the options that every verb has"),
    },
}

_VERBS: Final = {name: verb for verbs in _GROUPS.values() for name, verb in verbs.items()}
_ALIASES: Final = {verb.alias: name for name, verb in _VERBS.items() if verb.alias}


class Verbs(VerbGroup):
    """Loads only the module of the requested verb, so that each verb starts fast."""

    def list_commands(self, _: click.Context) -> list[str]:
        """Return the verbs, in the order of the help."""
        return list(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the verb, which may be called by its alias."""
        del ctx
        verb = _VERBS.get(_ALIASES.get(cmd_name, cmd_name))
        if verb is None:
            return None
        command: click.Command = import_module(f"harness.cli.{verb.module}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the verb by its own name, not by an alias. Raises UsageError, which names similar verbs."""
        command = self.get_command(ctx, args[0])
        if command is None and not ctx.resilient_parsing and not args[0].startswith("-"):
            from difflib import get_close_matches  # for a mistyped verb alone

            close = get_close_matches(args[0], [*_VERBS, *_ALIASES])
            question = f": did you mean {' or '.join(close)}?" if close else ""
            raise click.UsageError(f"No such command {args[0]!r}{question}", ctx)
        name, command, rest = super().resolve_command(ctx, args)
        return _ALIASES.get(name or "", name), command, rest

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the verbs, then the options that stand before a verb alone."""
        self.format_commands(ctx, formatter)
        VerbCommand.format_options(self, ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a line for each verb, in groups. No verb is imported for it."""
        del ctx
        titles = {name: f"{name}, {verb.alias}" if verb.alias else name for name, verb in _VERBS.items()}
        width = max(map(len, titles.values()))
        for heading, verbs in _GROUPS.items():
            with formatter.section(heading):
                formatter.write_dl([(titles[name].ljust(width), verb.summary) for name, verb in verbs.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the verbs that begin with `incomplete`, and the completions of the shared options."""
        verbs = [
            CompletionItem(name, help=verb.summary) for name, verb in _VERBS.items() if name.startswith(incomplete)
        ]
        return verbs + click.Command.shell_complete(self, ctx, incomplete)


def _print_version(ctx: click.Context, _: click.Parameter, value: object) -> None:
    if value and not ctx.resilient_parsing:
        from harness.locations import own_version

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

    With nothing configured, `cni-harness add pod1` uses the networks and plugins of this project. Variables that are
    empty count as not set.

    Shell completion: eval "$(_CNI_HARNESS_COMPLETE=bash_source cni-harness)", or zsh_source, or fish_source.
    """
    if os.environ.get("NO_COLOR"):
        ctx.color = False
    if ctx.invoked_subcommand is None:
        write(ctx.get_help())


cli.shared = shared_options(environment=True)
cli.params += cli.shared


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
