"""Masquerading by iptables, with the rules of the reference plugins (containernetworking/plugins).

Either suite can take over the other's rules. Each container has one chain, named by a hash. Each address of all its
interfaces has a jump to that chain. The rules are made by the iptables programs, because iptables may not understand
rules that are made in another way.

Everything happens in the network namespace of the calling thread, which is also the socket's.
"""

import errno
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from ipaddress import ip_network

from firewall.iptables_program import IptablesError, Program, find, run
from firewall.owner import Owner
from firewall.tables import Interface, Network, Tables
from lean.hashing import sha512
from lean.typing import NamedTuple
from netlink.nft_wire import IPV4, IPV6
from netlink.nftables import Table

__all__ = ["IptablesError", "apply", "collect", "holds", "remove", "repair"]

_CHAIN_LENGTH = 28
# Regular expressions. Importing `re` takes 3 ms and most calls find no iptables rules, so functions import it.
_CHAIN = r"CNI-[0-9a-f]{24}"
_JUMP = rf'-A POSTROUTING .*--comment "((?:[^"\\]|\\.)*)" .*-j ({_CHAIN})'
_COMMENT_LENGTH = 255
"""Bytes that iptables keeps of a comment; it drops the rest silently."""
_ATTEMPTS = 5
_FEWEST_USES = 3
"""The least uses of a complete chain: a rule for the subnet of one address, the masquerade rule, and a jump."""


class _Family(NamedTuple):
    version: int
    protocol: int
    program: str
    legacy_tables: str
    multicast: str


_FAMILIES = (
    _Family(4, IPV4, "iptables", "/proc/thread-self/net/ip_tables_names", "224.0.0.0/4"),
    _Family(6, IPV6, "ip6tables", "/proc/thread-self/net/ip6_tables_names", "ff00::/8"),
)


class _Wanted(NamedTuple):
    """The rules for addresses of one family, as `iptables -S` shows them, without the `-A`."""

    jumps: list[str]
    subnets: list[str]
    everything: str

    def missing(self, rules: Collection[str], jumps: Collection[str]) -> list[str]:
        """Return the changes that add the rules that are not among these of the chain, and of POSTROUTING."""
        return [
            # Rules for subnets must come before the rule for everything.
            *(f"-I {rule}" for rule in self.subnets if rule not in rules),
            *(f"-A {rule}" for rule in (self.everything,) if rule not in rules),
            *(f"-A {jump}" for jump in self.jumps if jump not in jumps),
        ]


def apply(tables: Tables, owner: Owner, addresses: Sequence[Interface]) -> None:
    """Masquerade traffic from `addresses` to anywhere but their subnets and multicast. Raises IptablesError.

    All rules of a family are made at once, or none. Existing rules stay.
    """
    chain = _chain_name(owner.network, owner.container_id)
    for family, wanted in _wanted(chain, owner, addresses):
        program = _backend(tables, family, chain)
        present = _jumps(program, chain) if program else []
        # Rules of the container's other interfaces stay.
        is_shared = any(jump not in wanted.jumps for jump in present)
        rules = _rules(program, chain) if program and is_shared else []
        changes = wanted.missing(rules, present)
        _restore(
            program or Program(family.program, tables.environ),
            changes if is_shared else [f":{chain} - [0:0]", *changes],
        )


def repair(tables: Tables, owner: Owner, addresses: Sequence[Interface]) -> None:
    """Put back missing rules of `apply`; the others stay as they are. Raises IptablesError, NetlinkError."""
    chain = _chain_name(owner.network, owner.container_id)
    for family, wanted in _wanted(chain, owner, addresses):
        program = _backend(tables, family, chain)
        if program is None:
            restoring = [f":{chain} - [0:0]", *wanted.missing([], [])]
            _restore(Program(family.program, tables.environ), restoring)
        elif changes := wanted.missing(_rules(program, chain), _jumps(program, chain)):
            _restore(program, changes)


def remove(tables: Tables, owner: Owner, addresses: Sequence[Interface] = ()) -> None:
    """Remove the jumps of `addresses`, and the chain with its last jump; no chain is fine.

    Without `addresses`, all rules of the container go. No program is run if the container has no chain. Raises
    IptablesError, NetlinkError.
    """
    chain = _chain_name(owner.network, owner.container_id)
    versions = {address.version for address in addresses} or {4, 6}
    for family in _FAMILIES:
        program = _backend(tables, family, chain) if family.version in versions else None
        if program:
            _remove(tables, program, family, chain, addresses)


def holds(tables: Tables, owner: Owner, addresses: Sequence[Interface]) -> bool:
    """Tell whether the container's chain has its rules and a jump to it, as far as the kernel counts them.

    Current iptables keeps its rules in nftables, so one look-up by name and family is enough. A program is run only
    if the kernel has a nat table of the older iptables. It looks for the chain alone. Raises IptablesError,
    NetlinkError.
    """
    chain = _chain_name(owner.network, owner.container_id)
    versions = {address.version for address in addresses}
    return all(_is_whole(tables, family, chain) for family in _FAMILIES if family.version in versions)


def collect(tables: Tables, network: str, valid: Collection[Owner]) -> None:
    """Remove the chains of the network's containers that have no attachment in `valid`, and all jumps to them.

    The jumps' comments name the network, and a valid chain is recognized by its name. Neither names the interface. No
    program is run if iptables has no chain that might have to go. A failure does not stop the removal of other
    chains. Raises IptablesError, which names all failures, and NetlinkError.
    """
    keep = {_chain_name(network, owner.container_id) for owner in valid}
    failures = []
    for family in _FAMILIES:
        for program in _programs(tables, family, keep):
            for chain in sorted(_chains_of(program, network) - keep):
                try:
                    _remove(tables, program, family, chain)
                except IptablesError as error:
                    failures.append(str(error.strerror))
    if failures:
        raise IptablesError(errno.EIO, "; ".join(failures))


def _wanted(chain: str, owner: Owner, addresses: Sequence[Interface]) -> Iterator[tuple[_Family, _Wanted]]:
    """Yield each family that has addresses, with its rules."""
    comment = f'-m comment --comment "{_escaped(_comment(owner))}"'
    for family in _FAMILIES:
        own = [address for address in addresses if address.version == family.version]
        if own:
            yield (
                family,
                _Wanted(
                    jumps=[f"POSTROUTING -s {each.ip}/{each.max_prefixlen} {comment} -j {chain}" for each in own],
                    subnets=list(dict.fromkeys(f"{chain} -d {each.network} {comment} -j ACCEPT" for each in own)),
                    everything=f"{chain} ! -d {family.multicast} {comment} -j MASQUERADE",
                ),
            )


def _remove(
    tables: Tables, program: Program, family: _Family, chain: str, addresses: Collection[Interface] = ()
) -> None:
    for attempt in range(_ATTEMPTS):
        changes = _removal(program, chain, addresses)
        try:
            if changes:
                _restore(program, changes)
        except IptablesError:
            # The program made all changes or none. Another process may have removed a rule since the listing.
            if not _backend(tables, family, chain):
                return
            if attempt == _ATTEMPTS - 1:
                raise
        else:
            return


def _removal(program: Program, chain: str, addresses: Collection[Interface]) -> list[str]:
    """Return changes that remove the jumps of `addresses`, or the whole chain if no other address has a jump to it."""
    sources = {jump: _source(jump) for jump in _jumps(program, chain)}
    # In early releases of the reference the jump was for the whole subnet.
    own = {network for address in addresses for network in (ip_network(address.ip), address.network)}
    jumps = [jump for jump, source in sources.items() if source in own or not addresses]
    deletions = [f"-D {jump}" for jump in jumps]
    if len(jumps) == len(sources):
        return [*deletions, f"-F {chain}", f"-X {chain}"]
    if not jumps:
        return []
    others = [source.network_address for jump, source in sources.items() if source and jump not in jumps]
    unused = tuple(f" -d {subnet}" for subnet in own if not any(address in subnet for address in others))
    rules = [rule for rule in _rules(program, chain) if rule.partition(" -m ")[0].endswith(unused)]
    return deletions + [f"-D {rule}" for rule in rules]


def _source(jump: str) -> Network | None:
    words = jump.split()
    return ip_network(words[2]) if words[1] == "-s" else None


def _is_whole(tables: Tables, family: _Family, chain: str) -> bool:
    uses = Table(tables.netfilter(), family.protocol, "nat").chain_uses(chain)
    return _backend(tables, family, chain) is not None if uses is None else uses >= _FEWEST_USES


def _backend(tables: Tables, family: _Family, chain: str) -> Program | None:
    """Return the program that can change `chain`, or None if the chain does not exist."""
    if Table(tables.netfilter(), family.protocol, "nat").chain_uses(chain) is not None:
        return _of_backend(tables.environ, family, "nft")
    if _has_legacy_nat(family):
        program = _of_backend(tables.environ, family, "legacy")
        if run(program, ["-w", "-t", "nat", "-S", chain], check=False)[0] == 0:
            return program
    return None


def _programs(tables: Tables, family: _Family, keep: Collection[str]) -> Iterator[Program]:
    """Return the programs that may know containers' chains besides the chains to `keep`."""
    chains = Table(tables.netfilter(), family.protocol, "nat").chains()
    import re

    others = [chain for chain in chains if re.fullmatch(_CHAIN, chain) and chain not in keep]
    if others:
        yield _of_backend(tables.environ, family, "nft")
    if _has_legacy_nat(family):
        yield _of_backend(tables.environ, family, "legacy")


def _of_backend(environ: Mapping[str, str], family: _Family, backend: str) -> Program:
    name = f"{family.program}-{backend}"
    return Program(name if find(name, environ) else family.program, environ)


def _has_legacy_nat(family: _Family) -> bool:
    if os.path.exists(family.legacy_tables):  # without the older iptables, an exception takes twice the time
        with suppress(FileNotFoundError), open(family.legacy_tables, encoding="ascii") as tables:
            return "nat" in tables.read().split()
    return False


def _chains_of(program: Program, network: str) -> set[str]:
    """Return the chains of the network's containers, except chains with a jump from another network, too."""
    import re

    _, listing = run(program, ["-w", "-t", "nat", "-S", "POSTROUTING"])
    own: set[str] = set()
    others: set[str] = set()
    for comment, chain in re.findall(_JUMP, listing):
        is_own = re.sub(r"\\(.)", r"\1", comment).startswith(f'name: "{_escaped(network)}" id: "')
        (own if is_own else others).add(chain)
    return own - others


def _jumps(program: Program, chain: str) -> list[str]:
    """Return the rules of POSTROUTING that lead to `chain`, as `iptables -S` shows them, without the `-A`."""
    return [rule for rule in _rules(program, "POSTROUTING") if rule.endswith(f" -j {chain}")]


def _rules(program: Program, chain: str) -> list[str]:
    """Return the rules of `chain`, as `iptables -S` shows them, without the `-A`."""
    _, listing = run(program, ["-w", "-t", "nat", "-S", chain])
    return [line.removeprefix("-A ") for line in listing.splitlines() if line.startswith("-A ")]


def _restore(program: Program, lines: Iterable[str]) -> None:
    script = "\n".join(["*nat", *lines, "COMMIT", ""])
    run(program._replace(name=f"{program.name}-restore"), ["-w", "--noflush"], script)


def _chain_name(network: str, container_id: str) -> str:
    return "CNI-" + _hash(network + container_id, _CHAIN_LENGTH - 4)


def _comment(owner: Owner) -> str:
    comment = f'name: "{_escaped(owner.network)}" id: "{_escaped(owner.container_id)}"'
    # Shortened as iptables does it, so that an existing rule is recognized.
    return comment.encode()[:_COMMENT_LENGTH].decode(errors="ignore")


def _escaped(text: str) -> str:
    return "".join(_escaped_character(character) for character in text)


def _escaped_character(character: str) -> str:
    if character in '\\"':
        return f"\\{character}"
    return character if character.isprintable() else f"\\x{ord(character):02x}"


def _hash(text: str, length: int) -> str:
    return sha512(text.encode()).hexdigest()[:length]
