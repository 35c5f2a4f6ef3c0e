"""The life of a DHCP lease as a table, its times, and the messages that servers send."""

import itertools
import random
from ipaddress import IPv4Interface

import pytest

from ipam.dhcp_daemon import dhcpv4, dhcpv6
from ipam.dhcp_daemon.dhcpv4 import Client
from ipam.dhcp_daemon.lease import TABLE, Action, Lease, LeaseEvent, LeaseState, Limits
from ipam.dhcp_daemon.store import Terms

TERMS = Terms(address=IPv4Interface("192.0.2.9/24"), server="192.0.2.2", lifetime=100, t1=50, t2=85)
MAC = bytes.fromhex("020000000009")


def events_until(lease: Lease, end: float) -> list[tuple[str, str]]:
    """Let time pass; return each event with the state that it led to."""
    seen = []
    while (now := lease.next_time()) <= end:
        event = lease.due(now)
        assert event, (lease.state, now)
        lease.on(event, now)
        seen.append((event, lease.state))
    return seen


def bound() -> Lease:
    lease = Lease(Limits())
    lease.on(LeaseEvent.START, 0)
    lease.on(LeaseEvent.OFFER, 0, TERMS)
    assert lease.on(LeaseEvent.ACK, 0.5, TERMS) == (Action.COMMIT, Action.QUIET)
    return lease


def test_every_state_but_the_last_one_ends_by_a_stop_and_by_a_missing_pod() -> None:
    states = {value for name, value in vars(LeaseState).items() if name.isupper()}

    for event in (LeaseEvent.STOP, LeaseEvent.GONE):
        assert {state for state in states if TABLE.get((state, event), ("",))[0] == LeaseState.ENDED} == (
            states - {LeaseState.ENDED}
        )
    assert not [state for state, _ in TABLE if state == LeaseState.ENDED]


def test_a_lease_that_no_server_renews_is_rebound_and_lost() -> None:
    lease = bound()

    seen = events_until(lease, 100)

    assert list(dict.fromkeys(seen)) == [
        (LeaseEvent.T1, LeaseState.RENEWING),
        (LeaseEvent.RESEND, LeaseState.RENEWING),
        (LeaseEvent.T2, LeaseState.REBINDING),
        (LeaseEvent.RESEND, LeaseState.REBINDING),
        (LeaseEvent.EXPIRY, LeaseState.SELECTING),
    ]
    assert lease.lost == TERMS
    assert not lease.holds


def test_lease_time_counts_from_the_request() -> None:
    lease = bound()
    events_until(lease, 50)
    asked = lease.obtained + 50

    lease.on(LeaseEvent.ACK, asked + 9, TERMS)

    assert (lease.state, lease.obtained, lease.next_time()) == (LeaseState.BOUND, asked, asked + 50)


def test_resumed_lease_is_due_for_the_missed_event() -> None:
    for away, event in ((40, None), (60, LeaseEvent.T1), (90, LeaseEvent.T2), (200, LeaseEvent.EXPIRY)):
        lease = Lease(Limits())
        lease.resume(TERMS, 1000)
        assert lease.due(1000 + away) == event


def test_messages_come_less_and_less_often() -> None:
    lease = Lease(Limits(resend_max=20))
    lease.on(LeaseEvent.START, 0)

    times = [0.0]
    for _ in range(8):
        times.append(lease.next_time())
        assert lease.on(LeaseEvent.RESEND, times[-1]) == (Action.DISCOVER,)

    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert all(abs(gap / wanted - 1) <= 0.11 for gap, wanted in zip(gaps, (1, 2, 4, 8, 16, 20, 20, 20), strict=True))


def test_a_server_that_offers_and_goes_is_given_up() -> None:
    lease = Lease(Limits(timeout=10))
    lease.on(LeaseEvent.START, 0)
    lease.on(LeaseEvent.OFFER, 0, TERMS)

    assert events_until(lease, 10)[-1] == (LeaseEvent.GIVE_UP, LeaseState.SELECTING)


def test_a_refused_renewal_takes_the_address_away() -> None:
    lease = bound()
    events_until(lease, 50)

    assert lease.on(LeaseEvent.NAK, 51) == (Action.WITHDRAW, Action.DISCOVER)
    assert (lease.state, lease.lost) == (LeaseState.SELECTING, TERMS)


def test_late_answers_change_nothing() -> None:
    lease = bound()

    assert [
        lease.on(event, 1, TERMS) for event in (LeaseEvent.OFFER, LeaseEvent.ACK, LeaseEvent.NAK, LeaseEvent.START)
    ] == [()] * 4
    assert lease.state == LeaseState.BOUND


def answer(kind: int, options: bytes) -> bytes:
    """A server's packet: the client's own, turned round, with other options."""
    packet = bytearray(dhcpv4.message(kind, Client(b"\0id", MAC, {}), 7, terms=None))
    packet[20:24] = packet[22:24] + packet[20:22]
    packet[28] = 2
    packet[28 + 16 : 28 + 20] = IPv4Interface("192.0.2.9/24").ip.packed
    return bytes(packet[: 28 + 240]) + options


OPTIONS = bytes.fromhex("350102 0104ffffff00 3604c0000202 330400000064 0304c0000202 ff")


def test_an_offer_is_read() -> None:
    packet = answer(dhcpv4.OFFER, OPTIONS)
    packet = packet[:24] + (len(packet) - 20).to_bytes(2) + packet[26:]

    reply = dhcpv4.read_reply(packet, 7, MAC)

    assert reply is not None
    assert reply.terms is not None
    assert (reply.event, reply.server, str(reply.terms.address)) == (LeaseEvent.OFFER, "192.0.2.2", "192.0.2.9/24")
    assert (reply.terms.lifetime, reply.terms.t1, reply.terms.t2) == (100, 50, 85)
    assert [str(route.gw) for route in reply.terms.routes] == ["192.0.2.2"]
    assert dhcpv4.read_reply(packet, 8, MAC) is None
    assert dhcpv4.read_reply(packet, 7, bytes(6)) is None


def test_an_error_of_a_dhcpv6_server_is_told_with_its_number() -> None:
    no_binding = bytes.fromhex("000d 0006 0003") + b"gone"

    reply = dhcpv6.read_reply(
        bytes.fromhex("07000007 0001 0002 abcd 0002 0002 ef01") + no_binding, 7, b"\xab\xcd", bytes(4)
    )

    assert reply is not None
    assert (reply.event, reply.terms, reply.flaw) == (LeaseEvent.NAK, None, "the server says: gone (status 3)")


@pytest.mark.parametrize("seed", range(4))
def test_reply_readers_survive_random_damage(seed: int) -> None:
    """Any byte may be wrong, and any may be the last."""
    rng = random.Random(seed)  # noqa: S311 -- repeatable
    four = answer(dhcpv4.OFFER, OPTIONS)
    four = four[:24] + (len(four) - 20).to_bytes(2) + four[26:]
    inner = bytes.fromhex("0005 0018 20010db8000000000000000000000001 00000006 00000006")
    ia = bytes.fromhex("0003 0028 01020304 00000000 00000000") + inner
    six = bytes.fromhex("07000007 0001 0002 abcd 0002 0002 ef01") + ia
    for _ in range(2000):
        for packet in (four, six):
            broken = bytearray(packet)
            for _ in range(rng.randrange(4)):
                broken[rng.randrange(len(broken))] = rng.randrange(256)
            cut = bytes(broken[: rng.randrange(len(broken) + 1)])
            dhcpv4.read_reply(cut, 7, MAC)
            dhcpv6.read_reply(cut, 7, b"\xab\xcd", bytes((1, 2, 3, 4)))

    reply = dhcpv6.read_reply(six, 7, b"\xab\xcd", bytes((1, 2, 3, 4)))
    assert reply is not None
    assert reply.terms is not None
    assert (str(reply.terms.address), reply.terms.lifetime, reply.terms.t1) == ("2001:db8::1/128", 6, 3)
