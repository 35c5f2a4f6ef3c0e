"""The types of option values that several verbs take: times, executables, folders."""

import re
from collections.abc import Callable, Iterable
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Final, TypeVar

import click

R = TypeVar("R")

EXECUTABLE = click.Path(exists=True, dir_okay=False, executable=True, resolve_path=True, path_type=Path)

_UNITS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_DURATION: Final = re.compile(r"(?:\d+(?:\.\d+)?(?:h|ms|m|s))+")
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|s)")
_NUMBER: Final = re.compile(r"\d+(?:\.\d*)?|\.\d+")


class Duration(click.ParamType):  # type: ignore[type-arg] # click 8.1 takes no arguments
    """A time in seconds, as kubectl takes it: `12`, `0.5`, `12s`, `1m30s`, `500ms`."""

    name = "duration"

    def __init__(self, *, positive: bool = False, whole: bool = False) -> None:
        """Refuse 0 if `positive`; if `whole`, give an int and refuse parts of a second."""
        self._positive = positive
        self._whole = whole

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return seconds."""
        text = str(value).strip()
        if _NUMBER.fullmatch(text):
            seconds = float(text)
        elif _DURATION.fullmatch(text):
            seconds = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
        else:
            self.fail(f"{text!r} is no time: wanted seconds, as 12, 12s or 1m30s", param, ctx)
        if self._positive and not seconds:
            self.fail(f"{text!r}: wanted more than 0 seconds", param, ctx)
        if self._whole and seconds != int(seconds):
            self.fail(f"{text!r}: wanted whole seconds", param, ctx)
        return int(seconds) if self._whole else seconds


def time_option(
    name: str, words: str, default: str | None = None, *, positive: bool = False, whole: bool = False
) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Return an option of a verb for a time; `words` are its help, which also shows the default."""
    kind, is_shown = Duration(positive=positive, whole=whole), default is not None
    return click.option(name, type=kind, default=default, show_default=is_shown, metavar="TIME", help=words)


def folders_of(text: str) -> tuple[Path, ...]:
    """Return the folders of a list with ':' between. They are absolute, because they are used from other folders."""
    return tuple(Path(folder).absolute() for folder in text.split(":") if folder)


def named_folders(folders: Iterable[str]) -> dict[str, tuple[Path, ...]]:
    """Return the folders of several suites by name, each written `[NAME=]DIR[:DIR]`. Raises UsageError."""
    named: dict[str, tuple[Path, ...]] = {}
    for text in folders:
        name, sign, rest = text.partition("=")
        path = rest if sign and "/" not in name else text
        listed = folders_of(path)
        name = name if path is rest else text
        if not listed or name in named:
            raise click.UsageError(f"--bin-dir {text}: {'named twice' if listed else 'no folder'}")
        if missing := [str(folder) for folder in listed if not folder.is_dir()]:
            raise click.UsageError(f"--bin-dir {text}: no folder {', '.join(missing)}")
        named[name] = listed
    return named


class Networks(click.ParamType):  # type: ignore[type-arg] # click 8.1 takes no arguments
    """Networks with commas between, as `10.244.0.0/16,fd00:10:244::/56`."""

    name = "networks"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[IPv4Network | IPv6Network, ...]:
        """Return the networks."""
        if isinstance(value, tuple):  # the default
            return value
        networks = []
        for text in str(value).split(","):
            try:
                networks.append(ip_network(text.strip()))
            except ValueError as error:
                self.fail(f"{text.strip()!r} is no network: {error}", param, ctx)
        return tuple(networks)


def networks_option(name: str, words: str, *, required: bool = False) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Return an option of a verb for networks; `words` are its help."""
    default = None if required else ()
    return click.option(name, type=Networks(), default=default, required=required, metavar="CIDR[,CIDR]", help=words)


backend_option = click.option(
    "--backend",
    type=click.Choice(["auto", "host-gw", "vxlan"]),
    default="auto",
    show_default=True,
    help="How packets travel: by routes to nodes on the same link, by a VXLAN tunnel, or each as it is needed.",
)
"""Adds --backend, of the agents between nodes."""
