"""The table of `firewall.masquerade_nft`: the objects of a subnet are looked up, made and removed.

A subnet has a map, a counter and a chain in the table. All three have the same name.
"""

from ipaddress import IPv4Network, IPv6Network, ip_interface, ip_network

from fast_stdlib.contextlib import suppress
from fast_stdlib.typing import Any, Final, Iterable
from firewall.owner import Owner
from firewall.tables import OWNER_KEY, OWNERS, Interface, Network, owner_key
from netlink.netfilter import LookUp, Netfilter
from netlink.nft_expressions import counted, destination_outside, masquerading
from netlink.nft_transaction import ADDRESS_KEYS, Hook, Transaction
from netlink.nft_wire import INET, Element
from netlink.nftables import NftChain, NftTable

OBJECTS_PER_SUBNET: Final = 3
_TABLE: Final = "cni_harness_masquerade"
_HOOK = Hook("nat", 4, 100)  # NF_INET_POST_ROUTING; priority srcnat
_MULTICAST: dict[int, Network] = {4: IPv4Network("224.0.0.0/4"), 6: IPv6Network("ff00::/8")}
_PREFIX: Final = "subnet-"


def open_table(netfilter: Netfilter) -> NftTable:
    """Return the table; nothing is asked yet."""
    return NftTable(netfilter, INET, _TABLE)


def name_of(network: Network) -> str:
    """Return the name of a subnet's map, counter and chain."""
    # nft(8) must be able to load its own output, and it accepts neither ":" nor "/" (at the end) in a name.
    return f"{_PREFIX}{network}".replace(":", "_").replace("/", "-")


def interface_of(element: Element, network: Network) -> Interface:
    """Return the address of an element in the map of `network`, with the subnet's prefix."""
    return ip_interface((element.key, network.prefixlen))


class SeenMasquerade:
    """The answers to one system call about an owner and addresses; all belong to `generation`, or to a later one."""

    def __init__(
        self, netfilter: Netfilter, owner: Owner, addresses: Iterable[Interface], *, chains: bool = False
    ) -> None:
        """Ask for the subnets' chains, which masquerading needs, or for their counters. Raises NetlinkError."""
        table = open_table(netfilter)
        elements = {each: table.element_question(name_of(each.network), each.ip.packed) for each in addresses}
        names = {each.network: name_of(each.network) for each in elements}
        of_chains = {network: table.chain_question(name) for network, name in names.items() if chains}
        of_counters = {network: table.counter_question(name) for network, name in names.items() if not chains}
        generation, uses = table.generation_question(), table.uses_question()
        listed = table.element_question(OWNERS, owner_key(owner.label()))
        asked = elements.values(), of_chains.values(), of_counters.values(), [uses] if chains else []
        netfilter.look_up(generation, listed, *(question for questions in asked for question in questions))
        self.generation = generation.found or 0
        self.listed = listed.found
        """The element that lists the owner's addresses."""
        self.elements = {address: question.found for address, question in elements.items() if question.found}
        """The elements of the addresses; another owner may have them."""
        self.chains = {network: question.found for network, question in of_chains.items()}
        self.uses = uses.found
        """With `chains`: the number of maps, sets, counters and chains; None if there is no table."""
        self.counters = {network: question.found for network, question in of_counters.items()}
        """Without `chains`: the number of elements of each subnet."""


class Subnets:
    """The objects of subnets in the table: listed, made and removed."""

    def __init__(self, netfilter: Netfilter) -> None:
        """Ask nothing yet."""
        self._netfilter = netfilter
        self.table = open_table(netfilter)

    def is_whole(self, network: Network, chain: NftChain | None) -> bool:
        """Tell whether a subnet's chain has its hook and a rule."""
        return chain is not None and chain.hook == _HOOK and self.table.has_rules(name_of(network), chain)

    def listed(self) -> list[Network]:
        """Return the subnets that have a map. O(n) in their number. Raises NetlinkError."""
        networks = []
        for name in self.table.sets():
            with suppress(ValueError):  # another program's set
                if name.startswith(_PREFIX):
                    networks.append(ip_network(name.removeprefix(_PREFIX).replace("_", ":").replace("-", "/")))
        return networks

    def counters(self, networks: Iterable[Network]) -> dict[Network, int | None]:
        """Return the number of elements of each subnet; None if it has no counter. Raises NetlinkError."""
        questions = {network: self.table.counter_question(name_of(network)) for network in networks}
        self._netfilter.look_up(*questions.values())
        return {network: counter.found for network, counter in questions.items()}

    def elsewhere(self, addresses: Iterable[Interface]) -> list[tuple[str, Element]]:
        """Return elements of these addresses in the maps of other subnets. Raises NetlinkError."""
        listed = self.listed()
        questions = [
            (name_of(network), self.table.element_question(name_of(network), address.ip.packed))
            for address in addresses
            for network in listed
            if network != address.network and address.ip in network
        ]
        self._netfilter.look_up(*(question for _, question in questions))
        return [(name, question.found) for name, question in questions if question.found]

    def restore(self, transaction: Transaction, seen: SeenMasquerade) -> None:
        """Make the objects of the seen subnets, and missing objects of the other subnets. Raises NetlinkError."""
        chains: dict[Network, NftChain | None] = dict(seen.chains)
        if seen.uses is not None:
            # A program that flushed these rules has probably flushed other networks' rules, too.
            questions = {each: self.table.chain_question(name_of(each)) for each in self.listed() if each not in chains}
            self._netfilter.look_up(*questions.values())
            found = {each: chain.found for each, chain in questions.items()}
            chains |= {each: chain for each, chain in found.items() if not self.is_whole(each, chain)}
        transaction.add_table()
        transaction.add_set(OWNERS, OWNER_KEY)
        for network, chain in chains.items():
            name = name_of(network)
            transaction.add_counter(name)
            transaction.add_set(name, ADDRESS_KEYS[network.version], counters=True)
            if chain and chain.hook != _HOOK:
                transaction.delete_chain(name)
            transaction.add_chain(name, _HOOK)
            outside = destination_outside(_MULTICAST[network.version], network)
            transaction.set_rules(name, [*outside, *counted(network.version, name), *masquerading()])

    def remove(self, transaction: Transaction, networks: Iterable[Network]) -> None:
        """Remove the objects of subnets without elements, and the table with the last. Raises NetlinkError.

        Elements deleted earlier in the transaction count as gone. The look-ups are not part of the transaction: commit
        it with a generation from before them.
        """
        names = [name_of(network) for network in networks]
        chains = [self.table.chain_question(name) for name in names]
        sets = [self.table.set_question(name) for name in [*names, OWNERS]]
        counters = [self.table.counter_question(name) for name in names]
        uses = self.table.uses_question()
        questions: list[LookUp[Any]] = [*chains, *sets, *counters]
        self._netfilter.look_up(*questions, uses)
        found = sum(question.found is not None for question in questions)
        for name, chain, own, counter in zip(names, chains, sets, counters, strict=False):
            if chain.found:
                transaction.delete_chain(name)
            if own.found:
                transaction.delete_set(name, elements=True)
            if counter.found is not None:
                transaction.delete_counter(name)
        if uses.found == found:
            # No subnet is left, so the addresses that an owner's element lists are gone.
            if sets[-1].found:
                transaction.delete_set(OWNERS, elements=True)
            transaction.delete_table()
