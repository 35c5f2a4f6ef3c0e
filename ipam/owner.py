"""The owner of a reservation, in the format of its file and of the index."""

import os

from lean.typing import NamedTuple
from skel import CniError
from skel.names import check_container_id, check_ifname

# The format of containerd, CRI-O, Docker and Podman.
_GENERATED_ID_LENGTH = 64
_HEX = frozenset("0123456789abcdef")


class Owner(NamedTuple):
    """An attachment; `ifname` is empty if the entry of a very old release names the container alone."""

    container_id: str
    ifname: str

    @classmethod
    def parse(cls, content: bytes) -> "Owner":
        """Read a reservation's content; white space around it does not count."""
        container_id, _, ifname = os.fsdecode(content.strip()).partition("\r\n")
        return cls(container_id, ifname)

    @property
    def content(self) -> bytes:
        """The content of the reservation file."""
        return os.fsencode(f"{self.container_id}\r\n{self.ifname}")

    @property
    def is_attachment(self) -> bool:
        """Whether a runtime can have set these names."""
        try:
            check_container_id(self.container_id)
            if self.ifname:
                check_ifname(self.ifname)
        except CniError:
            return False
        return True

    @property
    def may_be_note(self) -> bool:
        """Whether an operator can have written this to keep an address: words, not a runtime's container ID."""
        is_generated = len(self.container_id) == _GENERATED_ID_LENGTH and _HEX.issuperset(self.container_id)
        return not self.is_attachment or not (self.ifname or is_generated)

    @property
    def key(self) -> bytes:
        """The start of its line in the index: unambiguous, because no container ID has an @."""
        return os.fsencode(f"{self.container_id}@{self.ifname} ")
