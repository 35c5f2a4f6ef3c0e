"""`cni-harness kubelet`: the node's agent, which goes on until a signal."""

from pathlib import Path

import click

from harness.cli.kubelet_node import RuntimeChoice, node_name, open_kubelet, runtime_options
from harness.cli.options import Settings, verb
from harness.output import say


@verb(
    "kubelet",
    examples={
        "kubelet --manifests manifests": "Run the pods of a folder, and watch it",
        "kubelet": "Restart and probe the pods of `run`",
    },
    root="makes network namespaces and containers",
)
@click.option(
    "--manifests",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="A folder of manifests, or one file, which is watched.  [default: only the pods of `run`]",
)
@runtime_options
def command(settings: Settings, *, manifests: Path | None, runtime: RuntimeChoice) -> int:
    """Run the pods of a folder of manifests, and those of `run`, until a signal ends the program.

    As a kubelet without an API server: containers are restarted, probes are made, ended containers are removed, and a
    manifest that changes or goes has its pod replaced or ended. The pods go on running after the program's end, and the
    next start takes them over. GET /healthz and /pods are answered at the socket `kubelet/kubelet.sock` in the state
    folder.
    """
    from harness.kubelet.pod_records import PodRecords
    from harness.kubelet.server import KubeletServer
    from harness.kubelet.sources import Sources

    settings.announces = True
    paths = settings.kubelet_paths()
    sources = Sources(PodRecords(paths), manifests=manifests, node_name=node_name(settings), say=say)
    with open_kubelet(settings, runtime, alone=True) as assembled:
        kubelet = assembled.kubelet
        sources.on_pods = kubelet.set_pods
        say("Starting kubelet.")
        kubelet.start()
        server = KubeletServer(paths.socket, kubelet.pods, kubelet.health)
        try:
            sources.look()
            sources.start()
            say("Starting kubelet main sync loop")
            kubelet.run()
        finally:
            sources.close()
            server.close()
            assembled.close()
    return 0
