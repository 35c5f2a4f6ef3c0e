"""Where the boxes of a topology's drawing stand: columns for the node's links, then a box for each pod."""

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from harness.output import printable
from harness.runtime.node_snapshot import NODE
from harness.views.topology import Topology, TopologyLink, TopologyPlace
from harness.views.topology_text import (
    Branch,
    branches_of,
    connections,
    inside_words,
    owner_words,
    place_words,
    unreached_places,
)

# Pixels.
CHARACTER, LINE, PADDING, MARGIN, GAP_X = 7.3, 17, 10, 16, 56
_GAP_Y: Final = 14
JOINT: Final = PADDING + 6
"""From the upper side of a box to the lines that end at it."""
_LONGEST: Final = 48
"""Characters in a line of a box; a longer text goes on in the next one."""

Lines: TypeAlias = Sequence[tuple[str, str]]
"""Lines of text, each with its class."""
Key: TypeAlias = tuple[str, str]
"""The label of a place, and the name of a link in it."""


class Box(NamedTuple):
    """A box; x and y are its upper left corner. `inner` is the height of the boxes below its first line."""

    x: float
    y: float
    width: float
    height: float
    kind: str
    """ "frame", "link", "pod" or "inside": a link in a pod's box."""
    lines: Lines
    inner: float = 0

    @property
    def right(self) -> float:
        """The x of the right side."""
        return self.x + self.width


class Layout:
    """All boxes but the node's frame, the frame, and the pairs of boxes with a line between them.

    A link that others stand on, or whose port is a link, is left of those. Links that lead out of the node are in the
    last column before the pods. A pod is one box, at the first link that leads into it.
    """

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        branches = branches_of(topology)
        unreached = unreached_places(topology, branches)
        self._columns: dict[Key | str, int] = {}
        first = max(map(_rank, branches), default=0)
        self._set_columns(branches, first, first + 1)
        self._columns |= {place.label: first + 1 for place in unreached}
        self._next: dict[int, float] = {}
        """The first free y of each column."""
        self._widths = self._measured()
        self._x: dict[int, float] = {}
        x = float(MARGIN + PADDING)
        for column, width in self._widths.items():
            self._x[column] = x
            x += width + GAP_X
        self._links: dict[Key, Box] = {}
        self._places: list[Box] = []
        node = topology.node
        head = wrapped([("name", place_words(node)), *(("", f"route {each}") for each in node.routes)])
        self._top = MARGIN + height_of(head) + _GAP_Y / 2
        for branch in branches:
            self._draw(branch, self._top)
        for place in unreached:
            self._put_place(place, self._top)
        self.boxes = [*self._places, *self._links.values()]
        right = max([box.right for box in self.boxes] + [MARGIN + width_of(head) - PADDING])
        bottom = max([box.y + box.height for box in self.boxes] + [self._top - PADDING])
        self.frame = Box(MARGIN, MARGIN, right + PADDING - MARGIN, bottom + PADDING - MARGIN, "frame", head)
        self.lines = list(self._lines())

    def _set_columns(self, branches: Sequence[Branch], column: int, places: int) -> None:
        """Set the columns of the node's links, the last of them for those without others above, and of the places."""
        for branch in branches:
            label = branch.place.label
            if label == NODE:
                self._columns[NODE, branch.link.name] = column - _rank(branch)
            else:
                self._columns.setdefault(label, places)
            self._set_columns(branch.above, column, places if label == NODE else places + 1)

    def _measured(self) -> dict[int, float]:
        """Return the width of each column, from left to right."""
        widths = dict.fromkeys(sorted(self._columns.values()), 0.0)
        links = {link.name: link for link in self._topology.node.links}
        for key, column in self._columns.items():
            if isinstance(key, str):
                width = self._place_width(self._topology.places[key])
            else:
                width = width_of(_link_lines(links[key[1]]))
            widths[column] = max(widths[column], width)
        return widths

    def _draw(self, branch: Branch, least: float) -> float:
        """Draw a link and everything above it, not above y `least`; return the y where lines end at it."""
        label, name = key = branch.place.label, branch.link.name
        if label != NODE:
            if key not in self._links:
                self._put_place(branch.place, least)
            for above in branch.above:
                self._draw(above, least)
            return self._links[key].y + JOINT
        column = self._columns[key]
        least = max(least, self._next.get(column, 0))
        joints = []
        for above in sorted(branch.above, key=_leads_to_new):
            target = self._columns[(NODE, above.link.name) if above.place.label == NODE else above.place.label]
            between = range(column + 1, target)
            joint = self._draw(above, max([least, *(self._next.get(each, 0) for each in between)]))
            joints.append(joint)
            for each in between:  # a line crosses these columns
                self._next[each] = max(self._next.get(each, 0), joint + LINE)
        y = max(least, joints[0] - JOINT if joints else 0)
        lines = _link_lines(branch.link)
        self._links[NODE, name] = Box(self._x[column], y, self._widths[column], height_of(lines), "link", lines)
        self._next[column] = y + height_of(lines) + _GAP_Y
        return y + JOINT

    def _put_place(self, place: TopologyPlace, least: float) -> None:
        """Put the box of a place with all of its links into the place's column."""
        column = self._columns[place.label]
        x, y = self._x[column], max(least, self._next.get(column, 0))
        title, below = wrapped([("name", place_words(place))]), self._place_lines(place)
        width, top = self._widths[column], y + height_of(title)
        inner = 0.0
        for link in place.links:
            lines = _link_lines(link, place)
            box = Box(x + PADDING, top + inner, width - 2 * PADDING, height_of(lines), "inside", lines)
            self._links[place.label, link.name] = box
            inner += box.height + PADDING
        height = height_of(title) + inner + (len(below) * LINE + PADDING / 2 if below else 0)
        self._places.append(Box(x, y, width, height, "pod", [*title, *below], inner))
        self._next[column] = y + height + _GAP_Y

    def _place_lines(self, place: TopologyPlace) -> Lines:
        return wrapped(("", line) for line in inside_words(self._topology, place))

    def _place_width(self, place: TopologyPlace) -> float:
        inner = [width_of(_link_lines(link, place)) + 2 * PADDING for link in place.links]
        return max([width_of([*wrapped([("name", place_words(place))]), *self._place_lines(place)]), *inner])

    def _lines(self) -> Iterator[tuple[Box, Box, str]]:
        for one, other, kind in connections(self._topology):
            # Lines within a pod's box are words in the boxes of its links.
            if one in self._links and other in self._links and not one[0] == other[0] != NODE:
                yield self._links[one], self._links[other], kind


def _rank(branch: Branch) -> int:
    """Return the number of the node's links above a link, along the longest way."""
    return max((1 + _rank(above) for above in branch.above if above.place.label == NODE), default=0)


def _leads_to_new(branch: Branch) -> bool:
    """Tell whether a link does not lead into a place that an earlier link leads into; those come last."""
    return not any(above.place.label != NODE and not above.is_entrance for above in branch.above)


def _link_lines(link: TopologyLink, place: TopologyPlace | None = None) -> Lines:
    """Return the lines of a link of the node, or of one in the box of a place."""
    return wrapped(_words(link, place))


def _words(link: TopologyLink, place: TopologyPlace | None) -> Iterator[tuple[str, str]]:
    yield "name", link.name
    yield ("", f"{link.kind}, mtu {link.mtu}") if link.is_up else ("down", f"{link.kind}, mtu {link.mtu}, DOWN")
    yield from (("", address) for address in link.addresses)
    if link.peer is not None and not link.peer.place:
        yield "down", "other end in an unknown namespace"
    if place is not None:
        if link.bridge:
            yield "", f"port of {link.bridge}"
        if link.peer is not None and link.peer.place == place.label:
            yield "", f"{'peer' if link.kind in {'veth', 'netkit'} else 'on'} {link.peer.name}"
        if link.owner is not None and link.owner.kind == "attachment":  # the box names the pod
            yield "", f"network {link.owner.network}"
            return
    if owner := owner_words(link):
        yield "", owner


def wrapped(lines: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return lines that are short enough for a box; a text that is not goes on in the next line."""
    return [
        (style, part)
        for style, text in lines
        for part in textwrap.wrap(printable(text), _LONGEST, subsequent_indent="  ") or [""]
    ]


def width_of(lines: Lines) -> float:
    """Return the width in pixels of a box with these lines."""
    return max(len(text) for _, text in lines) * CHARACTER + 2 * PADDING


def height_of(lines: Lines) -> float:
    """Return the height in pixels of a box with these lines."""
    return len(lines) * LINE + 2 * PADDING - 4
