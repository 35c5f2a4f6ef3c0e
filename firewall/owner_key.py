"""The keys of a table's list of owners: DEL finds an attachment's elements there, without a result of ADD."""

from lean.hashing import sha256
from lean.typing import Final
from netlink.nft_transaction import KeyType

OWNERS: Final = "owners"
OWNER_KEY: Final = KeyType(41, 16, 1)  # ifname: a text of at most 15 characters


def owner_key(label: str, part: int = 0) -> bytes:
    """Return the key of an owner's element, or of one of several; a hash, as a label may be longer than a key."""
    text = f"{label} {part}" if part else label
    return sha256(text.encode()).hexdigest()[: OWNER_KEY.length - 1].encode().ljust(OWNER_KEY.length, b"\0")
