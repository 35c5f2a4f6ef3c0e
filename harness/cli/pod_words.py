"""Pods on the command line as kubectl takes them: `web`, `pod/web`, or the kind before the names, `pods web db`.

The functions are callbacks of click's arguments, and raise UsageError for another kind.
"""

from typing import Final

import click

_KINDS: Final = ("pod", "pods", "po")


def named_pods(ctx: click.Context, param: click.Parameter, words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names. A single `pod` is a name."""
    del ctx, param
    return tuple(map(_name, words[1:] if len(words) > 1 and words[0] in _KINDS else words))


def named_pod(ctx: click.Context, param: click.Parameter, words: str | tuple[str, ...]) -> str:
    """Return the name of one pod."""
    names = named_pods(ctx, param, (words,) if isinstance(words, str) else words)
    if len(names) != 1:
        raise click.UsageError(f"wanted the name of one pod, not of {len(names)}")
    return names[0]


def listed_pods(ctx: click.Context, param: click.Parameter, words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names after the kind, or with it: `pods`, `pod web`, `pod/web`; none for all."""
    if not words or "/" in words[0]:
        return named_pods(ctx, param, words)
    if words[0] not in _KINDS:
        raise click.UsageError(f'there is no kind "{words[0]}" here, only pods: `get pods`, `get pod NAME`')
    return tuple(map(_name, words[1:]))


def _name(word: str) -> str:
    kind, slash, name = word.rpartition("/")
    if slash and (kind not in _KINDS or not name):
        raise click.UsageError(f"{word!r}: wanted the name of a pod, as NAME or pod/NAME")
    return name
