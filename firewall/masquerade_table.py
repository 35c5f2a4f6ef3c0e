"""The table of `firewall.masquerade_nft`: the objects of a subnet are looked up, made and removed.

A subnet has a map, a counter and a chain in the table. All three have the same name. Addresses of one subnet may have
different exceptions: for each list of exceptions there are further three objects, and a set of intervals. The list's
hash is in their names.
"""

from ipaddress import IPv4Network, IPv6Network, ip_interface, ip_network

from fast_stdlib.contextlib import suppress
from fast_stdlib.hashing import sha256
from fast_stdlib.typing import Any, Final, Iterable, Mapping, NamedTuple, Sequence
from firewall.owner import Owner
from firewall.tables import OWNER_KEY, OWNERS, Interface, Network, owner_key
from netlink.netfilter import LookUp, Netfilter
from netlink.nft_expressions import counted, destination_address, destination_outside, masquerading, matched
from netlink.nft_transaction import ADDRESS_KEYS, Hook, Transaction
from netlink.nft_wire import INET, Element
from netlink.nftables import NftChain, NftTable

_TABLE: Final = "cni_harness_masquerade"
_HOOK = Hook("nat", 4, 100)  # NF_INET_POST_ROUTING; priority srcnat
MULTICAST: dict[int, Network] = {4: IPv4Network("224.0.0.0/4"), 6: IPv6Network("ff00::/8")}
"""By the version of IP."""
_SUBNET, _EXCEPT = "subnet-", "except-"
"""Beginnings of the names of a subnet's map, counter and chain, and of the set of exceptions."""
_DIGEST_LENGTH: Final = 12


def open_table(netfilter: Netfilter) -> NftTable:
    """Return the table; nothing is asked yet."""
    return NftTable(netfilter, INET, _TABLE)


class Subnet(NamedTuple):
    """A subnet, and the hash of its addresses' exceptions; "" for none."""

    network: Network
    digest: str = ""

    @property
    def name(self) -> str:
        """The name of the map, the counter and the chain."""
        return f"{_SUBNET}{self._suffix}"

    @property
    def exceptions(self) -> str:
        """The name of the set of exceptions; "" for none."""
        return f"{_EXCEPT}{self._suffix}" if self.digest else ""

    @property
    def objects(self) -> int:
        """The number of maps, sets, counters and chains."""
        return 4 if self.digest else 3

    @property
    def _suffix(self) -> str:
        # nft(8) must be able to load its own output, and it accepts neither ":" nor "/" (at the end) in a name.
        name = str(self.network).replace(":", "_").replace("/", "-")
        return f"{name}-{self.digest}" if self.digest else name

    @classmethod
    def from_name(cls, name: str) -> "Subnet | None":
        """Return the subnet of a map, or of a set of exceptions; None for another program's set."""
        if not name.startswith((_SUBNET, _EXCEPT)):
            return None
        with suppress(ValueError):
            _, address, length, *digests = name.split("-")
            return cls(ip_network(f"{address.replace('_', ':')}/{length}"), "-".join(digests))
        return None


class PodAddress(NamedTuple):
    """An address, and the hash of its exceptions; "" for none."""

    address: Interface
    digest: str = ""

    @property
    def subnet(self) -> Subnet:
        """The subnet whose map has the address."""
        return Subnet(self.address.network, self.digest)

    def __str__(self) -> str:
        """Return the text that the list of an owner has."""
        return f"{self.address}-{self.digest}" if self.digest else str(self.address)

    @classmethod
    def from_text(cls, text: str) -> "PodAddress":
        """Return the address of such a text. Raises ValueError."""
        address, _, digest = text.partition("-")
        return cls(ip_interface(address), digest)

    @classmethod
    def from_element(cls, element: Element, subnet: Subnet) -> "PodAddress":
        """Return the address of an element in the map of `subnet`."""
        return cls(ip_interface((element.key, subnet.network.prefixlen)), subnet.digest)


def intervals(networks: Iterable[Network], version: int) -> list[Element]:
    """Return the elements of a set with the networks of one family; none for none. Adjacent networks are joined."""
    elements: list[Element] = []
    behind = -1
    own = (each for each in networks if each.version == version)
    for network in sorted(own, key=lambda each: (int(each.network_address), each.prefixlen)):
        first, last = int(network.network_address), int(network.broadcast_address)
        if last < behind:
            continue
        if first <= behind:
            elements.pop()
        else:
            elements.append(Element(network.network_address.packed))
        behind = last + 1
        # An interval up to the last address has no end.
        end = behind.to_bytes(network.max_prefixlen // 8 + 1)[1:]
        elements.append(Element(end, is_end=True))
    return elements[:-1] if elements and not any(elements[-1].key) else elements


def digest_of(elements: Iterable[Element]) -> str:
    """Return a hash of `intervals`, as it is in the names of objects; "" for none."""
    # nft(8) adds an end at the first address.
    known = sorted((each.key, each.is_end) for each in elements if any(each.key) or not each.is_end)
    told = b"".join(key + bytes([is_end]) for key, is_end in known)
    return sha256(told).hexdigest()[:_DIGEST_LENGTH] if told else ""


class SeenMasquerade:
    """The answers to one system call about an owner and addresses; all belong to `generation`, or to a later one."""

    def __init__(
        self, netfilter: Netfilter, owner: Owner, addresses: Iterable[PodAddress], *, chains: bool = False
    ) -> None:
        """Ask for the subnets' chains, which masquerading needs, or for their counters. Raises NetlinkError."""
        table = open_table(netfilter)
        elements = {each: table.element_question(each.subnet.name, each.address.ip.packed) for each in addresses}
        names = {each.subnet: each.subnet.name for each in elements}
        of_chains = {subnet: table.chain_question(name) for subnet, name in names.items() if chains}
        of_counters = {subnet: table.counter_question(name) for subnet, name in names.items() if not chains}
        generation, uses = table.generation_question(), table.uses_question()
        listed = table.element_question(OWNERS, owner_key(owner.label()))
        asked = elements.values(), of_chains.values(), of_counters.values(), [uses] if chains else []
        netfilter.look_up(generation, listed, *(question for questions in asked for question in questions))
        self.generation = generation.found or 0
        self.listed = listed.found
        """The element that lists the owner's addresses."""
        self.elements = {address: question.found for address, question in elements.items() if question.found}
        """The elements of the addresses; another owner may have them."""
        self.chains = {subnet: question.found for subnet, question in of_chains.items()}
        self.uses = uses.found
        """With `chains`: the number of maps, sets, counters and chains; None if there is no table."""
        self.counters = {subnet: question.found for subnet, question in of_counters.items()}
        """Without `chains`: the number of elements of each subnet."""


class Subnets:
    """The objects of subnets in the table: listed, made and removed."""

    def __init__(self, netfilter: Netfilter) -> None:
        """Ask nothing yet."""
        self._netfilter = netfilter
        self.table = open_table(netfilter)

    def is_whole(self, subnet: Subnet, chain: NftChain | None) -> bool:
        """Tell whether a subnet's chain has its hook and a rule, and whether its set has all exceptions."""
        return (
            chain is not None
            and chain.hook == _HOOK
            and self.table.has_rules(subnet.name, chain)
            and (not subnet.digest or self._has_exceptions(subnet))
        )

    def _has_exceptions(self, subnet: Subnet) -> bool:
        return digest_of(self.table.elements(subnet.exceptions)) == subnet.digest

    def listed(self) -> list[Subnet]:
        """Return the subnets that have a map or a set of exceptions. O(n) in their number. Raises NetlinkError."""
        return list(dict.fromkeys(subnet for name in self.table.sets() if (subnet := Subnet.from_name(name))))

    def counters(self, subnets: Iterable[Subnet]) -> dict[Subnet, int | None]:
        """Return the number of elements of each subnet; None if it has no counter. Raises NetlinkError."""
        questions = {subnet: self.table.counter_question(subnet.name) for subnet in subnets}
        self._netfilter.look_up(*questions.values())
        return {subnet: counter.found for subnet, counter in questions.items()}

    def elsewhere(self, addresses: Iterable[PodAddress]) -> list[tuple[str, Element]]:
        """Return elements of these addresses in other maps. Raises NetlinkError."""
        listed = self.listed()
        questions = [
            (subnet.name, self.table.element_question(subnet.name, each.address.ip.packed))
            for each in addresses
            for subnet in listed
            if subnet != each.subnet and each.address.ip in subnet.network
        ]
        self._netfilter.look_up(*(question for _, question in questions))
        return [(name, question.found) for name, question in questions if question.found]

    def restore(
        self, transaction: Transaction, seen: SeenMasquerade, exceptions: Mapping[str, Sequence[Element]]
    ) -> None:
        """Make the objects of the seen subnets, and missing objects of the other subnets. Raises NetlinkError.

        `exceptions` has the intervals of the seen subnets by their hash. Lost ones of other subnets are not known.
        """
        chains: dict[Subnet, NftChain | None] = dict(seen.chains)
        if seen.uses is not None:
            # A program that flushed these rules has probably flushed other networks' rules, too.
            questions = {each: self.table.chain_question(each.name) for each in self.listed() if each not in chains}
            self._netfilter.look_up(*questions.values())
            found = {each: chain.found for each, chain in questions.items()}
            chains |= {each: chain for each, chain in found.items() if not self.is_whole(each, chain)}
        transaction.add_table()
        transaction.add_set(OWNERS, OWNER_KEY)
        for subnet, chain in chains.items():
            name, version = subnet.name, subnet.network.version
            transaction.add_counter(name)
            transaction.add_set(name, ADDRESS_KEYS[version], counters=True)
            if chain and chain.hook != _HOOK:
                transaction.delete_chain(name)
            transaction.add_chain(name, _HOOK)
            outside = [*destination_outside(MULTICAST[version], subnet.network)]
            if subnet.digest:
                self._restore_exceptions(transaction, subnet, exceptions.get(subnet.digest, ()))
                outside += [*destination_address(version), *matched(subnet.exceptions, absent=True)]
            transaction.set_rules(name, [*outside, *counted(version, name), *masquerading()])

    def _restore_exceptions(self, transaction: Transaction, subnet: Subnet, elements: Sequence[Element]) -> None:
        transaction.add_interval_set(subnet.exceptions, ADDRESS_KEYS[subnet.network.version])
        if elements and not self._has_exceptions(subnet):
            transaction.flush_set(subnet.exceptions)
            transaction.add_elements(subnet.exceptions, elements)

    def remove(self, transaction: Transaction, subnets: Iterable[Subnet]) -> None:
        """Remove the objects of subnets without elements, and the table with the last. Raises NetlinkError.

        Elements deleted earlier in the transaction count as gone. The look-ups are not part of the transaction: commit
        it with a generation from before them.
        """
        subnets = list(subnets)
        names = [subnet.name for subnet in subnets]
        exceptions = [subnet.exceptions for subnet in subnets if subnet.digest]
        chains = [self.table.chain_question(name) for name in names]
        sets = {name: self.table.set_question(name) for name in [*names, *exceptions, OWNERS]}
        counters = [self.table.counter_question(name) for name in names]
        uses = self.table.uses_question()
        questions: list[LookUp[Any]] = [*chains, *sets.values(), *counters]
        self._netfilter.look_up(*questions, uses)
        found = sum(question.found is not None for question in questions)
        for name, chain, counter in zip(names, chains, counters, strict=True):
            if chain.found:
                transaction.delete_chain(name)
            if sets[name].found:
                transaction.delete_set(name, elements=True)
            if counter.found is not None:
                transaction.delete_counter(name)
        for name in exceptions:
            if sets[name].found:
                transaction.delete_set(name, elements=True)
        if uses.found == found:
            # No subnet is left, so the addresses that an owner's element lists are gone.
            if sets[OWNERS].found:
                transaction.delete_set(OWNERS, elements=True)
            transaction.delete_table()
