"""Masquerading by iptables, with the rules of the reference plugins (containernetworking/plugins).

Either suite can take over the other's rules. Each container has one chain, named by a hash. Each address of all its
interfaces has a jump to that chain. The rules are made by the iptables programs, because iptables may not understand
rules that are made in another way. The reference has no exceptions: their rules name the address, and go with it.

Everything happens in the network namespace of the calling thread, which is also the socket's.
"""

import errno
from ipaddress import ip_network

from fast_stdlib.typing import Collection, Iterator, NamedTuple, Sequence
from firewall.iptables_program import IptablesError, Program, chain_name, escaped, restore, rules, run
from firewall.iptables_variant import FAMILIES, Family, program_with, programs_with
from firewall.owner import Owner
from firewall.tables import Interface, Network, Tables, host_network
from netlink.nftables import NftTable

_TABLE = "nat"
# Regular expressions. Importing `re` takes 3 ms and most calls find no iptables rules, so functions import it.
_PREFIX = "CNI-"
_CHAIN = r"CNI-[0-9a-f]{24}"
_JUMP = rf'-A POSTROUTING .*--comment "((?:[^"\\]|\\.)*)" .*-j ({_CHAIN})'
_COMMENT_LENGTH = 255
"""Bytes that iptables keeps of a comment; it drops the rest silently."""
_ATTEMPTS = 5
_FEWEST_USES = 3
"""The least uses of a complete chain: a rule for the subnet of one address, the masquerade rule, and a jump."""
_MULTICAST = {4: "224.0.0.0/4", 6: "ff00::/8"}


class _Wanted(NamedTuple):
    """The rules for addresses of one family, as `iptables -S` shows them, without the `-A`."""

    jumps: list[str]
    subnets: list[str]
    exceptions: list[str]
    everything: str

    def missing(self, present: Collection[str], jumps: Collection[str]) -> list[str]:
        """Return the changes that add the rules that are not among these of the chain, and of POSTROUTING."""
        return [
            # Rules for subnets and exceptions must come before the rule for everything.
            *(f"-I {rule}" for rule in (*self.subnets, *self.exceptions) if rule not in present),
            *(f"-A {rule}" for rule in (self.everything,) if rule not in present),
            *(f"-A {jump}" for jump in self.jumps if jump not in jumps),
        ]


def apply(
    tables: Tables,
    owner: Owner,
    addresses: Sequence[Interface],
    exceptions: Sequence[Network] = (),
    *,
    repairs: bool = False,
) -> None:
    """Masquerade traffic from `addresses` to anywhere but their subnets, multicast and `exceptions`.

    All rules of a family are made at once, or none. Existing rules stay. An ADD makes the container's chain anew if
    other interfaces have no rules there; with `repairs`, only missing rules are made. Raises IptablesError.
    """
    chain = chain_name(_PREFIX, owner.network, owner.container_id)
    for family, wanted in _wanted(chain, owner, addresses, exceptions):
        program = program_with(tables, family, _TABLE, chain)
        present = _jumps(program, chain) if program else []
        # Rules of the container's other interfaces stay.
        is_kept = program is not None and (repairs or any(jump not in wanted.jumps for jump in present))
        changes = wanted.missing(rules(program, _TABLE, chain) if program and is_kept else [], present)
        if not is_kept:
            changes.insert(0, f":{chain} - [0:0]")
        if changes or not repairs:
            restore(program or Program(family.program, tables.environ), _TABLE, changes)


def remove(tables: Tables, owner: Owner, addresses: Sequence[Interface] = ()) -> None:
    """Remove the jumps of `addresses`, and the chain with its last jump; no chain is fine.

    Without `addresses`, all rules of the container go. No program is run if the container has no chain. Raises
    IptablesError, NetlinkError.
    """
    chain = chain_name(_PREFIX, owner.network, owner.container_id)
    versions = {address.version for address in addresses} or {4, 6}
    for family in FAMILIES:
        program = program_with(tables, family, _TABLE, chain) if family.version in versions else None
        if program:
            _remove(tables, program, family, chain, addresses)


def holds(tables: Tables, owner: Owner, addresses: Sequence[Interface], exceptions: Sequence[Network] = ()) -> bool:
    """Tell whether the container's chain has its rules and a jump to it, as far as the kernel counts them.

    Current iptables keeps its rules in nftables, so one look-up by name and family is enough. A program is run only
    if the kernel has a nat table of the older iptables, or for exceptions, whose rules are compared. It looks for the
    chain alone otherwise. Raises IptablesError, NetlinkError.
    """
    chain = chain_name(_PREFIX, owner.network, owner.container_id)
    versions = {address.version for address in addresses}
    if not all(_is_whole(tables, family, chain) for family in FAMILIES if family.version in versions):
        return False
    for family, wanted in _wanted(chain, owner, addresses, exceptions):
        program = program_with(tables, family, _TABLE, chain) if wanted.exceptions else None
        if program and not set(wanted.exceptions).issubset(rules(program, _TABLE, chain)):
            return False
    return True


def collect(tables: Tables, network: str, valid: Collection[Owner]) -> None:
    """Remove the chains of the network's containers that have no attachment in `valid`, and all jumps to them.

    The jumps' comments name the network, and a valid chain is recognized by its name. Neither names the interface. No
    program is run if iptables has no chain that might have to go. A failure does not stop the removal of other
    chains. Raises IptablesError, which names all failures, and NetlinkError.
    """
    import re

    keep = {chain_name(_PREFIX, network, owner.container_id) for owner in valid}

    def is_other(chain: str) -> bool:
        return bool(re.fullmatch(_CHAIN, chain)) and chain not in keep

    failures = []
    for family in FAMILIES:
        for program in programs_with(tables, family, _TABLE, is_other):
            for chain in sorted(_chains_of(program, network) - keep):
                try:
                    _remove(tables, program, family, chain)
                except IptablesError as error:
                    failures.append(str(error.strerror))
    if failures:
        raise IptablesError(errno.EIO, "; ".join(failures))


def _wanted(
    chain: str, owner: Owner, addresses: Sequence[Interface], exceptions: Sequence[Network]
) -> Iterator[tuple[Family, _Wanted]]:
    """Yield each family that has addresses, with its rules."""
    comment = f'-m comment --comment "{escaped(_comment(owner))}"'
    for family in FAMILIES:
        own = [address for address in addresses if address.version == family.version]
        if own:
            yield (
                family,
                _Wanted(
                    jumps=[f"POSTROUTING -s {host_network(each)} {comment} -j {chain}" for each in own],
                    subnets=list(dict.fromkeys(f"{chain} -d {each.network} {comment} -j ACCEPT" for each in own)),
                    exceptions=[
                        # RETURN: other programs may translate the address.
                        f"{chain} {_from(each)}-d {exception} {comment} -j RETURN"
                        for each in own
                        for exception in dict.fromkeys(exceptions)
                        if exception.version == family.version
                    ],
                    everything=f"{chain} ! -d {_MULTICAST[family.version]} {comment} -j MASQUERADE",
                ),
            )


def _remove(
    tables: Tables, program: Program, family: Family, chain: str, addresses: Collection[Interface] = ()
) -> None:
    for attempt in range(_ATTEMPTS):
        changes = _removal(program, chain, addresses)
        try:
            if changes:
                restore(program, _TABLE, changes)
        except IptablesError:
            # The program made all changes or none. Another process may have removed a rule since the listing.
            if not program_with(tables, family, _TABLE, chain):
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
    sources_of_own = tuple(f"{chain} {_from(address)}" for address in addresses)
    own_rules = [
        rule
        for rule in rules(program, _TABLE, chain)
        if rule.partition(" -m ")[0].endswith(unused) or rule.startswith(sources_of_own)
    ]
    return deletions + [f"-D {rule}" for rule in own_rules]


def _from(address: Interface) -> str:
    """Return the match of an address in the rules of its exceptions."""
    return f"-s {host_network(address)} "


def _source(jump: str) -> Network | None:
    words = jump.split()
    return ip_network(words[2]) if words[1] == "-s" else None


def _is_whole(tables: Tables, family: Family, chain: str) -> bool:
    uses = NftTable(tables.netfilter(), family.protocol, "nat").chain_uses(chain)
    return program_with(tables, family, _TABLE, chain) is not None if uses is None else uses >= _FEWEST_USES


def _chains_of(program: Program, network: str) -> set[str]:
    """Return the chains of the network's containers, except chains with a jump from another network, too."""
    import re

    _, listing = run(program, ["-w", "-t", "nat", "-S", "POSTROUTING"])
    own: set[str] = set()
    others: set[str] = set()
    for comment, chain in re.findall(_JUMP, listing):
        is_own = re.sub(r"\\(.)", r"\1", comment).startswith(f'name: "{escaped(network)}" id: "')
        (own if is_own else others).add(chain)
    return own - others


def _jumps(program: Program, chain: str) -> list[str]:
    """Return the rules of POSTROUTING that lead to `chain`, as `iptables -S` shows them, without the `-A`."""
    return [rule for rule in rules(program, _TABLE, "POSTROUTING") if rule.endswith(f" -j {chain}")]


def _comment(owner: Owner) -> str:
    comment = f'name: "{escaped(owner.network)}" id: "{escaped(owner.container_id)}"'
    # Shortened as iptables does it, so that an existing rule is recognized.
    return comment.encode()[:_COMMENT_LENGTH].decode(errors="ignore")
