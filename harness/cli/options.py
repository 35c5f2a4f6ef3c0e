"""The options that every verb shares, before it or after it."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, suppress
from dataclasses import dataclass, field
from functools import wraps
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import click
from click.core import ParameterSource

from harness.cli.option_types import folders_of
from harness.cli.traced_verb import trace_options, traceable
from harness.cli.verb_help import VerbCommand
from harness.locations import DEFAULT_BIN_DIR, DEFAULT_CONF_DIR, DEFAULT_STATE_DIR, OWN_CONF_DIR
from harness.output import TextTable, emit, say, say_changes

if TYPE_CHECKING:
    from harness.kubelet.paths import KubeletPaths
    from harness.runtime.node import Node
    from harness.runtime.pod_lifecycle import PodRuntime
    from harness.runtime.pods import PodRecordError
    from harness.snapshot import Difference

_FOLDER: Final = click.Path(file_okay=False)


@dataclass
class Settings:
    """The values of the shared options; None or an empty tuple if neither option nor environment sets one."""

    conf_dir: Path | None = None
    bin_dirs: tuple[Path, ...] = ()
    state_dir: Path = DEFAULT_STATE_DIR
    node: str | None = None
    output: str = "table"
    verbose: int = 0
    trace: bool = False
    trace_all: bool = False
    trace_files: tuple[Path, ...] = ()
    record: bool = False
    announces: bool = False
    """Whether the use of this project's own lists and plugins is reported on stderr."""
    named: set[str] = field(default_factory=set)
    """The fields above that an option sets, not the environment."""

    @property
    def tree(self) -> "Literal['steps', 'whole'] | None":
        """The tree of calls that is printed, if any."""
        return "whole" if self.trace_all else "steps" if self.trace else None

    @property
    def is_table(self) -> bool:
        """Whether the result is for people, not a document for programs."""
        return self.output in {"table", "wide"}

    def open_node(self, *, threads: int = 8) -> "Node":
        """Return the node that pods are on; nothing is made yet. Raises NodeError."""
        from harness.runtime.node import Node

        return Node(self.node, self.state_dir, threads=threads)

    def existing_node(self, *, threads: int = 8) -> "Node":
        """Return the node, which must exist already. Raises NodeError."""
        node = self.open_node(threads=threads)
        node.must_exist()
        return node

    def kubelet_paths(self) -> "KubeletPaths":
        """Return the paths of the node's kubelet. Raises NodeError."""
        from harness.kubelet.paths import KubeletPaths

        return KubeletPaths(self.open_node().folder)

    @property
    def usual_conf_dir(self) -> Path:
        """The folder of network lists without `conf_dir`: the node's own if it has one, or this host's."""
        own = self.open_node().conf_dir
        return own if own.is_dir() else DEFAULT_CONF_DIR

    @property
    def plugin_dirs(self) -> tuple[Path, ...]:
        """The folders of plugins: `bin_dirs`, or the node's own if it has one, and the default."""
        if self.bin_dirs or self.node is None:
            return self.bin_dirs or (DEFAULT_BIN_DIR,)
        own = self.open_node().bin_dir
        return (own, DEFAULT_BIN_DIR) if own.is_dir() else (DEFAULT_BIN_DIR,)

    def usual_bin_dirs(self, node: "Node", on_error: "Callable[[PodRecordError], object]") -> list[Path]:
        """Return the folders of plugins for the node's pods: `plugin_dirs`, then those of their ADDs."""
        of_pods = [Path(folder) for pod in node.pods.all(on_error=on_error) for folder in pod.bin_dirs]
        return [*dict.fromkeys([*self.plugin_dirs, *of_pods])]

    def runtime(self, node: "Node", bin_dirs: Sequence[Path]) -> "PodRuntime":
        """Return the runtime of a node: it logs executions of plugins as -v asks, and its warnings go to stderr."""
        from harness.cli.execution_log import execution_logger
        from harness.runtime.pod_lifecycle import PodRuntime

        return PodRuntime(node, bin_dirs=bin_dirs, observe=execution_logger(self.verbose), warn=say)

    def emit(
        self, document: Mapping[str, object], table: TextTable, changes: "Sequence[Difference] | None" = None
    ) -> None:
        """Print the result: `document`, with `changes` as its `diff`, or `table`, with `changes` as lines below it."""
        if changes is not None:
            document = {**document, "diff": [each.to_document() for each in changes]}
        emit(self.output, document, table)
        if self.is_table:
            say_changes([each.in_words() for each in changes or ()])


def warn(error: Exception) -> None:
    """Tell the user of an error that stops nothing."""
    say(f"Warning: {' '.join(str(error).split())}")


def needs_root(verb: str, reason: str) -> None:
    """Raise ClickException, one line, unless this is root; `reason` completes "it …"."""
    if os.geteuid() != 0:
        raise click.ClickException(f"`cni-harness {verb}` needs root: it {reason}")


def _remember(ctx: click.Context, param: click.Parameter, value: object) -> None:
    """Put a given value into the settings; a value after the verb is read later, and overrules."""
    settings = ctx.ensure_object(Settings)
    if param.name in {"trace", "trace_all"}:
        setattr(settings, param.name, getattr(settings, param.name) or bool(value))
    elif param.name == "trace_files":
        settings.trace_files += tuple(value) if isinstance(value, tuple) else ()
    elif param.name == "verbose":
        settings.verbose += value if isinstance(value, int) else 0
    elif value is not None:
        name, text = str(param.name), str(value)
        if not folders_of(text):
            # `--node "$NAME"` must not mean this host if NAME is unset.
            raise click.BadParameter(f"{text!r} names nothing; for the default, leave the option out", ctx, param)
        folder = Path(text).absolute()
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            settings.named.add(name)
        read = {"bin_dirs": folders_of(text), "conf_dir": folder, "state_dir": folder}
        setattr(settings, name, read.get(name, text))


def _demand_folders(ctx: click.Context, param: click.Parameter, value: object) -> None:
    """Remember --bin-dir; after the verb, when the value is complete, refuse a missing folder."""
    _remember(ctx, param, value)
    settings = ctx.ensure_object(Settings)
    missing = [str(folder) for folder in settings.bin_dirs if not folder.is_dir()]
    if missing and "bin_dirs" in settings.named and ctx.parent is not None and not ctx.resilient_parsing:
        raise click.BadParameter(f"no folder {', '.join(missing)}", ctx, param)


def shared_options(*, environment: bool = False, makes_folders: bool = False) -> list[click.Parameter]:
    """Return the options that every verb has; for the group, `environment` adds the variables that stand for them.

    Only the group has them: a variable must not overrule an option before the verb. With `makes_folders`, folders of
    --bin-dir may be missing.
    """

    def option(*names: str, envvar: str, **settings: Any) -> click.Option:  # noqa: ANN401 -- click's own
        settings = {"callback": _remember, "expose_value": False, **settings}
        return click.Option(names, envvar=envvar if environment else None, show_envvar=environment, **settings)

    return [
        option(
            "--conf-dir",
            envvar="NETCONFPATH",
            type=_FOLDER,
            help=f"Network lists.  [default: {DEFAULT_CONF_DIR}, or the --node's copy]",
        ),
        option(
            "--bin-dir",
            "bin_dirs",
            envvar="CNI_PATH",
            metavar="DIR[:DIR]",
            callback=_remember if makes_folders else _demand_folders,
            help=f"Plugins; several folders with ':' between.  [default: {DEFAULT_BIN_DIR}]",
        ),
        option(
            "--state-dir",
            envvar="CNI_HARNESS_STATE_DIR",
            type=_FOLDER,
            help=f"Records of pods and nodes.  [default: {DEFAULT_STATE_DIR}]",
        ),
        option(
            "--node",
            envvar="CNI_HARNESS_NODE",
            metavar="NAME",
            shell_complete=complete_node,
            help="Work on a network namespace that stands for the host, made by the first `add`.",
        ),
        option(
            "-o",
            "--output",
            envvar="CNI_HARNESS_OUTPUT",
            type=click.Choice(["table", "wide", "json", "yaml"]),
            help="How the result is printed. A table shows 12 digits of a container ID, and on a terminal it is as "
            "wide as that; `wide` has whole values, and a line for each row.  [default: table]",
        ),
        click.Option(
            ["-v", "--verbose"],
            count=True,
            expose_value=False,
            callback=_remember,
            help="Log each execution of a plugin on stderr; -vv in whole, as commands for a shell.",
        ),
        *trace_options(_remember),
    ]


def verb(
    name: str,
    *,
    makes_folders: bool = False,
    own_output: bool = False,
    examples: Mapping[str, str],
    root: str = "",
    cls: type[VerbCommand] = VerbCommand,
    **attributes: Any,  # noqa: ANN401 -- click's own
) -> Callable[[Callable[..., object]], Any]:
    """Make a function a command, with the shared options after its own; its first argument is the Settings.

    A command with `own_output` has an option -o of its own in place of the shared one. `examples` are for the help, see
    `VerbCommand`; tests execute them. `root` is the reason why a verb needs root, as for `needs_root`.
    """

    def decorate(function: Callable[..., object]) -> click.Command:
        @wraps(function)
        def demanding_root(settings: Settings, **arguments: Any) -> object:  # noqa: ANN401 -- the verb's own
            if root:
                needs_root(name, root)
            return function(settings, **arguments)

        carry_out = click.make_pass_decorator(Settings, ensure=True)(traceable(name, demanding_root, say))
        options = shared_options(makes_folders=makes_folders)
        shared = [option for option in options if not (own_output and option.name == "output")]
        command = click.command(name, cls=cls, examples=examples, shared=shared, **attributes)(carry_out)
        command.params += shared
        return command

    return decorate


def complete_pod(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of pods for the shell to complete."""
    with _quietly():
        from harness.cli.kubelet_node import pods_on_record

        namespace = ctx.params.get("namespace", "default")
        settings = _settings(ctx)
        of_manifests = [(pod.metadata.namespace, pod.metadata.name) for pod, _ in pods_on_record(settings)]
        pods = sorted({*settings.open_node().pods.names(), *of_manifests})
        return [name for where, name in pods if namespace in {"", where} and name.startswith(incomplete)]
    return []


def complete_network(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of networks for the shell to complete."""
    with _quietly():
        from harness.cli.defaults import configured_networks
        from harness.libcni.networks import load_networks

        networks = [*configured_networks(_settings(ctx)), *load_networks(OWN_CONF_DIR)]
        return list(dict.fromkeys(each.name for each in networks if each.name.startswith(incomplete)))
    return []


namespace_option = click.option(
    "-n", "--namespace", default="default", show_default=True, metavar="NS", help="The pods' Kubernetes namespace."
)
"""Adds --namespace, the pod's Kubernetes namespace."""

only_networks_option = click.option(
    "--network",
    "names",
    multiple=True,
    metavar="NAME",
    shell_complete=complete_network,
    help="Only this network; may be repeated.",
)
"""Adds --network, which limits a verb to the networks named."""

cache_dir_option = click.option(
    "--cache-dir",
    "cache_dirs",
    multiple=True,
    type=click.Path(file_okay=False, exists=True, path_type=Path),
    metavar="DIR",
    help="A runtime's cache of results; may be repeated.  [default: /var/lib/cni]",
)
"""Decorates a verb, which gets `cache_dirs`: a tuple of existing folders, empty by default."""


def complete_node(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of nodes for the shell to complete."""
    nodes = _settings(ctx).state_dir.glob("nodes/*/")
    return sorted(path.name for path in nodes if path.name.startswith(incomplete))


def _settings(ctx: click.Context) -> Settings:
    return ctx.find_object(Settings) or Settings()


@contextmanager
def _quietly() -> Iterator[None]:
    """Drop warnings and errors: they would appear in the line that the shell completes."""
    with redirect_stderr(StringIO()), suppress(Exception):
        yield
