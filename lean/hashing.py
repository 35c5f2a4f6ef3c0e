"""SHA-2 without `hashlib`, which loads OpenSSL: 3 ms."""

__all__ = ["sha256", "sha512"]

try:  # the interpreter's own: one module for each before Python 3.12
    from _sha2 import sha256, sha512  # type: ignore[import-not-found]
except ImportError:
    try:
        from _sha256 import sha256  # type: ignore[import-not-found]
        from _sha512 import sha512  # type: ignore[import-not-found]
    except ImportError:  # an interpreter that was built without them
        from hashlib import sha256, sha512
