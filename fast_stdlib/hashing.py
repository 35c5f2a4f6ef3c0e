"""SHA-2 without `hashlib`, which loads OpenSSL: 3 ms."""

from fast_stdlib.typing import TYPE_CHECKING

__all__ = ["sha256", "sha512"]

if TYPE_CHECKING:
    from hashlib import sha256, sha512
else:
    try:  # the interpreter's own modules; before Python 3.12 each hash had one
        from _sha2 import sha256, sha512
    except ImportError:
        try:
            from _sha256 import sha256
            from _sha512 import sha512
        except ImportError:  # this interpreter was built without them
            from hashlib import sha256, sha512
