"""Admission of pods by iptables, with the rules of the reference plugins (containernetworking/plugins).

Either suite can take over the other's rules. All pods share the chains:

    -A FORWARD -m comment --comment "CNI firewall plugin rules" -j CNI-FORWARD
    -A CNI-FORWARD -m comment --comment "CNI firewall plugin admin overrides" -j CNI-ADMIN
    -A CNI-FORWARD -d 10.88.0.5/32 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
    -A CNI-FORWARD -s 10.88.0.5/32 -j ACCEPT

The rules of an ingress policy belong to a bridge, in the chains CNI-ISOLATION-STAGE-1 and -2. They stay when a pod
goes, as with the reference: a pod of the other suite may need them. The rules do not name their owner: `admission_nft`
lists the addresses of each.
"""

from fast_stdlib.functools import partial
from fast_stdlib.typing import Callable, Collection, Final, Iterator, Sequence
from firewall.admission_table import ISOLATED, Admission, Ingress
from firewall.iptables_program import IptablesError, Program, restore, run
from firewall.iptables_variant import FAMILIES, Family, program_of, program_with, programs_with
from firewall.owner import Owner
from firewall.tables import Interface, Tables, host_network
from netlink.nftables import NftTable, mentions

_TABLE: Final = "filter"
_FORWARD: Final = "CNI-FORWARD"
_STAGES: Final = ("CNI-ISOLATION-STAGE-1", "CNI-ISOLATION-STAGE-2")
_JUMP = f'FORWARD -m comment --comment "CNI firewall plugin rules" -j {_FORWARD}'
_POLICY = "(ingressPolicy: "
_ANY_POLICY = "same-bridge|isolated"
_ATTEMPTS = 5


class _Filter:
    """The chains and rules of a table, as `iptables -S` shows them."""

    def __init__(self, program: Program) -> None:
        """Read them. Raises IptablesError."""
        from collections import Counter  # 1.5 ms that a DEL without addresses does without

        _, listing = run(program, ["-w", "-t", _TABLE, "-S"])
        lines = listing.splitlines()
        self.chains = {line.split()[1] for line in lines if not line.startswith("-A ")}
        self.rules = Counter(line.removeprefix("-A ") for line in lines if line.startswith("-A "))
        self._effects = set(map(_effect, self.rules))

    def has(self, rule: str) -> bool:
        """Tell whether a rule is there, whichever policy its comment names: releases of the reference differ."""
        return _effect(rule) in self._effects


def apply(tables: Tables, _owner: Owner, admission: Admission) -> None:
    """Accept packets from the addresses and answers to them, and restrict the ingress. Raises OSError.

    All rules of a family are made at once, or none. Existing rules stay.
    """
    for family, addresses in _by_family(admission.addresses):
        program = program_with(tables, family, _TABLE, _FORWARD) or Program(family.program, tables.environ)
        _change(program, partial(_missing, addresses=addresses, admission=admission))


def restrict(tables: Tables, admission: Admission) -> None:
    """Restrict the ingress alone, in the families of the addresses. Raises OSError."""
    if admission.ingress is None:
        return
    for family, _ in _by_family(admission.addresses):
        program = program_with(tables, family, _TABLE, _STAGES[0]) or Program(family.program, tables.environ)
        _change(program, partial(_isolation, ingress=admission.ingress))


def remove(tables: Tables, _owner: Owner, admission: Admission) -> None:
    """Remove the rules of the addresses; none are fine. No program is run if there are none. Raises OSError."""
    for family, addresses in _by_family(admission.addresses):
        for program in _programs(tables, family, addresses):
            _change(program, partial(_removal, addresses=addresses))


def holds(tables: Tables, _owner: Owner, admission: Admission) -> bool:
    """Tell whether the rules of the addresses are there, and those that lead to them. Raises OSError."""
    pods = admission._replace(ingress=None)
    for family, addresses in _by_family(admission.addresses):
        program = program_with(tables, family, _TABLE, _FORWARD)
        if program is None or _missing(_Filter(program), addresses, pods):
            return False
    return True


def restricts(tables: Tables, _owner: Owner, admission: Admission) -> bool:
    """Tell whether the rules of the ingress policy are there, and those that lead to them. Raises OSError."""
    for family, _ in _by_family(admission.addresses):
        program = program_with(tables, family, _TABLE, _STAGES[0])
        if program is None or (admission.ingress and _isolation(_Filter(program), admission.ingress)):
            return False
    return True


def _change(program: Program, changes: Callable[[_Filter], list[str]]) -> None:
    """Make the `changes` that a listing calls for, all or none; look again after a failure. Raises IptablesError."""
    tried: list[str] = []
    for attempt in range(_ATTEMPTS):
        wanted = changes(_Filter(program))
        if not wanted:
            break
        try:
            restore(program, _TABLE, wanted)
        except IptablesError:
            # Another process may have made or removed a chain or a rule since the listing.
            if wanted == tried or attempt == _ATTEMPTS - 1:
                raise
            tried = wanted
        else:
            break


def _removal(present: _Filter, addresses: Sequence[Interface]) -> list[str]:
    return [f"-D {rule}" for rule in _pod_rules(addresses) for _ in range(present.rules[rule])]


def _programs(tables: Tables, family: Family, addresses: Sequence[Interface]) -> Iterator[Program]:
    """Return the programs that may have rules of the addresses."""
    rules = NftTable(tables.netfilter(), family.protocol, _TABLE).rules(_FORWARD)
    if any(mentions(rule, address.ip.packed) for rule in rules for address in addresses):
        yield program_of(tables, family, "nft")
    yield from programs_with(tables, family, _TABLE, lambda _: False)


def _missing(present: _Filter, addresses: Sequence[Interface], admission: Admission) -> list[str]:
    """Return the changes that add the missing chains and rules, as lines for iptables-restore(8)."""
    admin = f'{_FORWARD} -m comment --comment "CNI firewall plugin admin overrides" -j {admission.admin_chain}'
    changes = _new_chains(present, (_FORWARD, admission.admin_chain))
    if not present.rules[_JUMP]:
        changes.append(f"-I {_JUMP}")
        # The jump for isolation comes first: packets that are accepted here pass no other rule.
        first = [rule for rule in present.rules if _effect(rule) == _effect(_ISOLATION_JUMP)]
        changes += [line for rule in first for line in (f"-D {rule}", f"-I {rule}")]
    if not present.rules[admin]:
        changes.append(f"-I {admin}")
    changes += [f"-A {rule}" for rule in _pod_rules(addresses) if not present.rules[rule]]
    return changes + (_isolation(present, admission.ingress) if admission.ingress else [])


def _isolation(present: _Filter, ingress: Ingress) -> list[str]:
    """Return the changes that add the missing rules of a bridge's ingress policy."""
    first, second = _STAGES
    bridge = ingress.bridge
    inserted = [_ISOLATION_JUMP, f"{first} -i {bridge} ! -o {bridge} {_comment(ingress.policy)} -j {second}"]
    if ingress.policy == ISOLATED:
        inserted.append(f"{first} -i {bridge} -o {bridge} {_comment(ingress.policy)} -j DROP")
    inserted.append(f"{second} -o {bridge} {_comment(_ANY_POLICY)} -j DROP")
    appended = [f"{stage} {_comment(_ANY_POLICY)} -j RETURN" for stage in _STAGES]
    return [
        *_new_chains(present, _STAGES),
        *(f"-I {rule}" for rule in inserted if not present.has(rule)),
        *(f"-A {rule}" for rule in appended if not present.has(rule)),
    ]


def _new_chains(present: _Filter, names: Collection[str]) -> list[str]:
    # Not ":NAME", which would empty a chain that another process has made since the listing.
    return [f"-N {name}" for name in dict.fromkeys(names) if name not in present.chains]


def _pod_rules(addresses: Sequence[Interface]) -> Iterator[str]:
    for address in addresses:
        yield f"{_FORWARD} -d {host_network(address)} -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT"
        yield f"{_FORWARD} -s {host_network(address)} -j ACCEPT"


def _effect(rule: str) -> str:
    """Return a rule without the policies in its comment."""
    head, mark, tail = rule.partition(_POLICY)
    return head + mark + tail[tail.find(")") :] if mark else rule


def _comment(policy: str) -> str:
    return f'-m comment --comment "CNI firewall plugin rules {_POLICY}{policy})"'


_ISOLATION_JUMP: Final = f"FORWARD {_comment(_ANY_POLICY)} -j {_STAGES[0]}"


def _by_family(addresses: Sequence[Interface]) -> Iterator[tuple[Family, list[Interface]]]:
    for family in FAMILIES:
        own = [address for address in addresses if address.version == family.version]
        if own:
            yield family, own
