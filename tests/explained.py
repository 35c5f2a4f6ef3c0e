"""Pages of `cni-harness explain`, read as a reader of HTML reads them."""

from html.parser import HTMLParser
from pathlib import Path

from tests.cli import Cli, bridge_network

_VOID = {"meta", "link", "br", "img"}


class Explained(HTMLParser):
    """A page: the text of its sections, and of its elements by tag and class."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text
        self.sections: dict[str, str] = {}
        """The text of each section, by its ID, without tooltips."""
        self.tags: list[tuple[str, dict[str, str]]] = []
        self._found: list[tuple[str, str, str]] = []
        self._open: list[tuple[str, str, list[str]]] = []
        self._section = ""
        self.feed(text)
        self.close()
        assert self._open == [], self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        named = {name: value or "" for name, value in attrs}
        self.tags.append((tag, named))
        if tag == "section":
            self._section = named["id"]
        if tag not in _VOID:
            self._open.append((tag, named.get("class", ""), []))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element without content."""
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        """Note the end of an element."""
        name, kind, texts = self._open.pop()
        assert name == tag, f"</{tag}> ends <{name}>"
        self._found.append((tag, kind, "".join(texts)))

    def handle_data(self, data: str) -> None:
        """Note a text, as part of all elements around it."""
        for _, _, texts in self._open:
            texts.append(data)
        if all(tag not in {"title", "style"} for tag, _, _ in self._open):
            self.sections[self._section] = self.sections.get(self._section, "") + data

    def texts(self, tag: str, kind: str = "") -> list[str]:
        """Return the texts of elements with a tag and a class."""
        return [text for name, its, text in self._found if name == tag and (not kind or kind in its.split())]

    def facts(self) -> dict[str, str]:
        """Return the lines of the summary."""
        section = self.text.partition('id="summary"')[2].partition("</section>")[0]
        part = Explained(f"<div>{section.partition('>')[2]}</div>") if section else None
        return dict(zip(part.texts("dt"), part.texts("dd"), strict=True)) if part is not None else {}

    def commands(self) -> list[str]:
        """Return the commands of the documents."""
        return [text for text in self.texts("pre") if "CNI_COMMAND=" in text]


def explained(cli: Cli, pod: str, *args: str) -> Explained:
    """Write the page of a pod, and read it."""
    file = Path(cli.folder, "page.html")
    cli.run("explain", pod, "-o", str(file), *args)
    assert file.stat().st_mode & 0o777 == 0o600
    return Explained(file.read_text())


def chain() -> dict[str, object]:
    """Return a list with a bridge and a chained plugin."""
    network = bridge_network("net", ipMasq=True)
    network["plugins"].append({"type": "portmap", "capabilities": {"portMappings": True}})
    return network


def host_veth(cli: Cli, netns: str) -> str:
    """Return the name of the node's end of the pod's eth0, by the kernel's numbers."""
    (link,) = cli.ip("link", "show", "dev", "eth0", netns=netns)
    (name,) = [each["ifname"] for each in cli.ip("link", "show") if each["ifindex"] == link["link_index"]]
    return str(name)
