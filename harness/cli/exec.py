"""`cni-harness exec`: a command inside a pod."""

import os
import signal
from pathlib import Path

import click

from harness.cli.kubectl import named_pod
from harness.cli.kubelet_node import open_runtime, pods_on_record, runtime_endpoint_option
from harness.cli.node_pods import node_pod
from harness.cli.options import Settings, complete_pod, namespace_option, verb
from harness.cli.verb_help import VerbCommand
from harness.output import say
from harness.runtime.resolv_conf import HOST_RESOLV_CONF

_NOT_FOUND = 127
_NOT_EXECUTABLE = 126
"""The shell's exit codes for a command that it cannot run (POSIX, XCU 2.8.2)."""


class WithCommand(VerbCommand):
    """Leaves the options of the pod's command to that command, with or without `--` before it."""

    allow_interspersed_args = False

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the options before the pod's name, and after it if only options follow up to `--`."""
        words = self._after_options(ctx, args)
        options, pod, words = args[: len(args) - len(words)], words[:1], words[1:]
        if "--" in words:
            dashes = words.index("--")
            own = [*options, *words[:dashes]]
            if not self._after_options(ctx, own):
                options, words = own, words[dashes + 1 :]
        return super().parse_args(ctx, [*options, *pod, *words])

    def _after_options(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Return the part of a command line from the first word that is not an option."""
        options = click.Command(None, params=[each for each in self.params if isinstance(each, click.Option)])
        _, words, _ = options.make_parser(ctx).parse_args(list(args))
        return words


@verb(
    "exec",
    examples={
        "exec pod1 -- ip address": "Show the addresses that a pod sees",
        "exec web -c server -- ls /srv": "Run a command in a container of a manifest's pod",
    },
    cls=WithCommand,
    root="enters a network namespace",
)
@click.argument("pod", metavar="[pod/]POD", callback=named_pod, shell_complete=complete_pod)
@click.argument("arguments", nargs=-1, required=True, metavar="[--] COMMAND...", type=click.UNPROCESSED)
@click.option("-c", "--container", "name", default="", metavar="NAME", help="The container of a manifest's pod.")
@click.option("-i", "--stdin", is_flag=True, help="Pass standard input on to the command in a container.")
@click.option("-t", "--tty", is_flag=True, help="Give the command in a container a terminal.")
@namespace_option
@runtime_endpoint_option
def command(
    settings: Settings,
    *,
    pod: str,
    arguments: tuple[str, ...],
    name: str,
    stdin: bool,
    tty: bool,
    namespace: str,
    runtime_endpoint: str,
) -> int:
    """Run a command in a pod: in its network namespace, or in a container if a manifest describes the pod.

    In a pod of `add`, only network and resolv.conf are the pod's, files are the node's. The command replaces this
    program: its exit code and signals are its own.
    """
    record = settings.open_node().pods.read(namespace, pod)
    if record is None and any(each.metadata.name == pod for each, _ in pods_on_record(settings)):
        return _in_container(settings, runtime_endpoint, (namespace, pod, name), arguments, tty=tty, stdin=stdin)
    record = record or node_pod(settings, namespace, pod)
    from netlink.namespace import NotANamespaceError, entered, open_namespace

    try:
        netns = open_namespace(record.netns)
    except (FileNotFoundError, NotANamespaceError):
        raise click.ClickException(f"the sandbox of pod {record.title} is gone: {record.netns}") from None
    with entered(netns):
        _mount_pod_files(settings.open_node().pods.resolv_conf(record))
        return replace_program(arguments)


def _in_container(
    settings: Settings,
    endpoint: str,
    where: tuple[str, str, str],
    arguments: tuple[str, ...],
    *,
    tty: bool,
    stdin: bool,
) -> int:
    """Run the command in a container of a manifest's pod, given by namespace, pod and container."""
    from harness.cri.messages import ContainerState
    from harness.kubelet.labels import CONTAINER_NAME, POD_UID

    namespace, pod, name = where
    on_record = {(each.metadata.namespace, each.metadata.name): each for each, _ in pods_on_record(settings)}
    if (found := on_record.get((namespace, pod))) is None:
        raise click.ClickException(f"there is no pod {namespace}/{pod}")
    container = name or found.spec.containers[0].name
    with open_runtime(settings, endpoint) as service:
        labels = {POD_UID: found.metadata.uid, CONTAINER_NAME: container}
        running = [each for each in service.list_containers(labels=labels) if each.state is ContainerState.RUNNING]
        if not running:
            raise click.ClickException(f'container "{container}" of pod {namespace}/{pod} does not run')
        return service.exec(running[0].id, list(arguments), tty=tty, stdin=stdin)


def _mount_pod_files(resolv_conf: Path) -> None:
    """Give this process the pod's files that depend on the network, as ip-netns(8) does for its own namespaces."""
    from netlink.own_namespaces import mount_own_sysfs, private_mounts

    missing = [str(path) for path in (resolv_conf, HOST_RESOLV_CONF) if not path.exists()]
    if missing:
        say(f"Without the pod's resolv.conf: there is no {missing[0]}")
    private_mounts({} if missing else {str(HOST_RESOLV_CONF): str(resolv_conf)})
    mount_own_sysfs()


def replace_program(arguments: tuple[str, ...]) -> int:
    """Replace this program; returns only if it cannot, with an exit code."""
    # Python ignores these signals. A program that writes into a closed pipe relies on SIGPIPE.
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(ignored, signal.SIG_DFL)
    try:
        os.execvp(arguments[0], arguments)  # noqa: S606 -- runs a command without a shell, on purpose
    except FileNotFoundError:
        say(f"Error: {arguments[0]}: command not found")
        return _NOT_FOUND
    except OSError as error:
        say(f"Error: {arguments[0]}: {error.strerror}")
        return _NOT_EXECUTABLE
