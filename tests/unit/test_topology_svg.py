"""The drawing of a topology: boxes, lines and texts of topologies made by hand, and of random ones."""

import random
import re
from typing import NamedTuple
from xml.etree import ElementTree as ET

import pytest

from harness.views.namespaces import LinkEnd, LinkOwner
from harness.views.topology import Topology, TopologyLink, TopologyPlace
from harness.views.topology_layout import CHARACTER, GAP_X, PADDING
from harness.views.topology_svg import svg

_SVG = "{http://www.w3.org/2000/svg}"
_LONG = "a-name-with-many-words-" * 8


class Rect(NamedTuple):
    """A rectangle of the drawing, with the texts of its group."""

    kind: str
    x: float
    y: float
    right: float
    bottom: float
    texts: tuple[ET.Element, ...]

    def holds(self, x: float, y: float) -> bool:
        return self.x - 0.2 <= x <= self.right + 0.2 and self.y - 0.2 <= y <= self.bottom + 0.2

    def meets(self, other: "Rect") -> bool:
        return self.x < other.right and other.x < self.right and self.y < other.bottom and other.y < self.bottom


class Drawn:
    """A drawing, read again."""

    def __init__(self, topology: Topology) -> None:
        self.root = ET.fromstring("\n".join(svg(topology)))  # noqa: S314 -- our own drawing
        groups = [group for group in self.root.findall(f"{_SVG}g") if group.find(f"{_SVG}title") is not None]
        self.boxes = [_rect(group) for group in groups]
        self.texts = [text.text or "" for group in groups for text in group.iter(f"{_SVG}text")]
        legends = [group for group in self.root.findall(f"{_SVG}g") if group not in groups]
        self.legend = {text.text for group in legends for text in group.iter(f"{_SVG}text")}
        self.paths = [_ends(path.attrib["d"]) for path in self.root.findall(f"{_SVG}path")]

    def of(self, *kinds: str) -> list[Rect]:
        return [box for box in self.boxes if box.kind in kinds]

    def check(self) -> None:
        """Texts are inside of their boxes, boxes apart from each other or inside of each other, lines between boxes."""
        [frame] = self.of("frame")
        for box in self.boxes:
            assert frame.holds(box.x, box.y)
            assert frame.holds(box.right, box.bottom)
            for text in box.texts:
                x, y = (float(text.attrib[key]) for key in "xy")
                assert box.holds(x, y - 9)
                assert box.holds(x + len(text.text or "") * CHARACTER, y + 3)
        for kinds in (("link", "pod"), ("link", "inside")):
            boxes = self.of(*kinds)
            assert not [box for number, box in enumerate(boxes) for other in boxes[:number] if box.meets(other)]
        for box in self.of("inside"):
            assert any(pod.holds(box.x, box.y) and pod.holds(box.right, box.bottom) for pod in self.of("pod"))
        for pod in self.of("pod"):
            places = [(float(text.attrib["x"]), float(text.attrib["y"])) for text in pod.texts]
            assert not [place for place in places for box in self.of("inside") if box.holds(*place)]
        for start, end in self.paths:
            assert any(box.holds(*start) for box in self.of("link", "inside"))
            assert any(box.holds(*end) for box in self.of("link", "inside"))
        width, height = (float(self.root.attrib[key]) for key in ("width", "height"))
        for rect in self.root.iter(f"{_SVG}rect"):
            if "x" in rect.attrib:
                assert float(rect.attrib["x"]) + float(rect.attrib["width"]) <= width
                assert float(rect.attrib["y"]) + float(rect.attrib["height"]) <= height


def _rect(group: ET.Element) -> Rect:
    rect = group.find(f"{_SVG}rect")
    assert rect is not None
    x, y, width, height = (float(rect.attrib[key]) for key in ("x", "y", "width", "height"))
    return Rect(rect.attrib["class"], x, y, x + width, y + height, tuple(group.iter(f"{_SVG}text")))


def _ends(path: str) -> tuple[tuple[float, float], tuple[float, float]]:
    numbers = [float(number) for number in re.findall(r"[\d.]+", path)]
    x, y, _, end_y, end_x = numbers
    return (x, y), (end_x, end_y)


_OWNER = LinkOwner("attachment", "pod1", "net", "c0ffee", "eth0", "alias")


def link(
    name: str, kind: str = "veth", *, up: bool = True, bridge: str = "", peer: tuple[str, str] | None = None
) -> TopologyLink:
    end = LinkEnd(*peer) if peer else None
    return TopologyLink(name, kind, "02:00:00:00:00:01", 1500, up, ("10.1.0.2/16",), bridge, end, None)


def place(label: str, *links: TopologyLink, routes: tuple[str, ...] = ("default dev eth0",)) -> TopologyPlace:
    return TopologyPlace(label, f"/run/netns/{label}", () if label == "node" else (label,), links, routes)


def topology(*places: TopologyPlace) -> Topology:
    return Topology({each.label: each for each in places})


def pods(*labels: str) -> Topology:
    """Return a bridge with a pod for each label."""
    ports = [link(f"veth{number}", bridge="cni0", peer=(label, "eth0")) for number, label in enumerate(labels)]
    insides = [place(label, link("eth0", peer=("node", f"veth{number}"))) for number, label in enumerate(labels)]
    return topology(place("node", link("cni0", "bridge"), *ports), *insides)


@pytest.mark.parametrize("count", [0, 1, 3, 30])
def test_pods_on_a_bridge(count: int) -> None:
    drawn = Drawn(pods(*(f"pod{number}" for number in range(count))))

    drawn.check()
    assert [len(drawn.of(kind)) for kind in ("frame", "pod", "inside", "link")] == [1, count, count, count + 1]
    assert len(drawn.paths) == 2 * count
    assert ("veth pair, or port of a bridge" in drawn.legend) == bool(count)
    assert "VLAN, macvlan or ipvlan on its link" not in drawn.legend


def test_columns_are_as_wide_as_their_longest_text() -> None:
    drawn = Drawn(pods("pod1", "pod2-with-a-longer-name"))

    columns = sorted({box.x for box in drawn.of("link", "pod")})
    ends = []
    for x in columns:
        boxes = [box for box in drawn.of("link", "pod") if box.x == x]
        longest = max(len(text.text or "") for box in boxes for text in box.texts)
        assert {round(box.right - box.x - longest * CHARACTER) for box in boxes} == {2 * PADDING}
        ends.append(boxes[0].right)
    assert {round(after - end) for end, after in zip(ends, columns[1:], strict=False)} == {GAP_X}


def test_a_pod_with_two_interfaces_is_one_box() -> None:
    bridge = [link("cni0", "bridge"), link("veth0", bridge="cni0", peer=("pod1", "eth0")), link("up0", "device")]
    inside = [link("eth0", peer=("node", "veth0")), link("net1", "macvlan", peer=("node", "up0")), link("tun0", "tun")]
    drawn = Drawn(topology(place("node", *bridge), place("pod1", *inside)))

    drawn.check()
    [pod] = drawn.of("pod")
    assert [text.text for text in pod.texts] == ["pod1", "route default dev eth0"]
    assert [box.texts[0].text for box in drawn.of("inside")] == ["eth0", "net1", "tun0"]
    assert len(drawn.paths) == 3
    assert "VLAN, macvlan or ipvlan on its link" in drawn.legend


def test_links_on_links_of_a_pod_are_words() -> None:
    inside = [link("eth0", peer=("node", "veth0")), link("eth0.7", "vlan", peer=("pod1", "eth0"))]
    drawn = Drawn(topology(place("node", link("veth0", peer=("pod1", "eth0"))), place("pod1", *inside)))

    drawn.check()
    assert "on eth0" in drawn.texts
    assert len(drawn.paths) == 1


def test_long_texts_are_whole() -> None:
    drawn = Drawn(pods("pod1", _LONG))

    drawn.check()
    words = "".join("".join(drawn.texts).split())
    assert _LONG in words
    assert "…" not in words


def test_control_characters_are_escaped_and_measured() -> None:
    drawn = Drawn(pods("\x1b[31m" * 4))

    drawn.check()
    assert "\\x1b[31m" * 4 in drawn.texts


def test_links_that_are_down_are_in_the_legend() -> None:
    assert "down, or unknown" not in Drawn(pods("pod1")).legend
    assert "down, or unknown" in Drawn(topology(place("node", link("eth0", up=False)))).legend


def test_the_owner_of_an_interface_is_its_network_since_its_box_names_the_pod() -> None:
    veth, eth0 = (each._replace(owner=_OWNER) for each in (link("veth0", peer=("pod1", "eth0")), link("eth0")))
    drawn = Drawn(topology(place("node", veth), place("pod1", eth0)))

    drawn.check()
    [on_node], [inside] = drawn.of("link"), drawn.of("inside")
    assert on_node.texts[-1].text == "net/pod1/eth0"
    assert inside.texts[-1].text == "network net"


def test_pods_behind_a_pod_and_a_place_without_a_way_to_the_node() -> None:
    node = place("node", link("veth0", peer=("pod1", "eth0")))
    router = place("pod1", link("eth0", peer=("node", "veth0")), link("in0", peer=("pod2", "eth0")))
    by_veth = place("pod2", link("eth0", peer=("pod1", "in0")))
    by_macvlan = place("pod3", link("eth0", "macvlan", peer=("pod1", "eth0")))
    drawn = Drawn(topology(node, router, by_veth, by_macvlan, place("alone", routes=())))

    drawn.check()
    left = {str(pod.texts[0].text): pod.x for pod in drawn.of("pod")}
    assert left["pod1"] == left["pod2"] == left["alone"] < left["pod3"]
    assert len(drawn.paths) == 3


@pytest.mark.parametrize("seed", range(20))
def test_random_topologies(seed: int) -> None:
    """Bridges, VLANs on devices, and pods whose interfaces are on any of them, some with two."""
    chosen = random.Random(seed)  # noqa: S311 -- no secret
    devices = [link(f"up{number}", "device") for number in range(chosen.randrange(1, 4))]
    vlans = [link(f"{each.name}.7", "vlan", peer=("node", each.name)) for each in devices if chosen.random() < 0.5]
    bridges = [link(f"cni{number}", "bridge") for number in range(chosen.randrange(3))]
    node, insides = [*devices, *vlans, *bridges], []
    node += [link(each.name + "v", "vlan", peer=("node", each.name)) for each in bridges if chosen.random() < 0.3]
    for number in range(chosen.randrange(8)):
        inside = []
        for ifname in ("eth0", "net1", "net2")[: chosen.randrange(1, 4)]:
            below = chosen.choice([*devices, *vlans, *bridges])
            if below.kind == "bridge":
                veth = f"veth{number}{ifname}"
                node.append(link(veth, bridge=below.name, peer=(f"pod{number}", ifname)))
                inside.append(link(ifname, peer=("node", veth)))
            else:
                inside.append(link(ifname, "macvlan", peer=("node", below.name)))
        insides.append(place(f"pod{number}", *inside, routes=("r",) * chosen.randrange(6)))
    chosen.shuffle(node)

    drawn = Drawn(topology(place("node", *node), *insides))

    drawn.check()
    assert len(drawn.of("link")) == len(node)
    assert len(drawn.of("pod")) == len(insides)
