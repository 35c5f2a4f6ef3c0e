"""`cni-harness conformance clean`: remove the nodes that `--keep` left for a look."""

import click

from harness.cli.options import Settings, needs_root, verb
from harness.table import Table


def _complete_kept(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    del param
    from harness.runtime.site import kept_sites

    settings = ctx.find_object(Settings) or Settings()
    return [name for name in kept_sites(settings.state_dir) if name.startswith(incomplete)]


@verb("clean")
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=_complete_kept)
def clean(settings: Settings, *, names: tuple[str, ...]) -> None:
    """Remove nodes that --keep left, with their containers and processes: those named, otherwise all."""
    from harness.runtime.site import kept_sites, remove_kept

    needs_root("conformance clean", "removes network namespaces")
    kept = kept_sites(settings.state_dir)
    for name in names:
        if name not in kept:
            listed = f"there is {', '.join(kept)}" if kept else "there is none"
            raise click.UsageError(f"{name}: no node that was kept; {listed}")
    removed = list(names or kept)
    for name in removed:
        remove_kept(name, settings.state_dir)
    settings.emit({"removed": removed}, Table(("REMOVED",), [[name] for name in removed]))
