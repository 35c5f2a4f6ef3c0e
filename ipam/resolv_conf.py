"""Reading resolv.conf(5) as the reference plugin does."""

from skel import DNS, CniError, Code

_FIELDS_MIN = 2


def read_resolv_conf(path: str) -> DNS:
    """Return the settings in the file at `path`; repeated `search` and `options` lines add up.

    Raises CniError (5) if it cannot be read.
    """
    dns = DNS()
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = [line.split() for line in file]
    except OSError as error:
        raise CniError(Code.IO_FAILURE, f'ipam.resolvConf: cannot read "{path}": {error.strerror}') from None
    for words in lines:
        if len(words) < _FIELDS_MIN or words[0][0] in "#;":
            continue
        keyword, first, *_ = words
        if keyword == "nameserver":
            dns.nameservers.append(first)
        elif keyword == "domain":
            dns.domain = first
        elif keyword in {"search", "options"}:
            getattr(dns, keyword).extend(words[1:])
    return dns
