"""The client of one lease: it carries out the actions of its `Lease`, in the pod's network namespace."""

import hashlib
import os
from collections.abc import Callable, Mapping

from fast_stdlib.typing import ClassVar, NamedTuple

from . import dhcpv4, dhcpv6
from .dhcpv4 import Reply
from .lease import Action, Lease, LeaseEvent, LeaseState, Limits
from .loop import Loop, boot_time
from .pod_interface import GoneError, Opened, PodInterface
from .sockets import Datagrams, Packets, Wire
from .store import Terms

_FIRST_LOOK, _LAST_LOOK = 0.02, 1.0
"""Seconds between two looks whether the interface can send."""
_MOST_BYTES = 254
"""Of a client ID."""


def client_id(container_id: str, network: str, ifname: str) -> str:
    """Return an attachment's client ID: the reference's, so that a server knows its pods again."""
    return f"{container_id}/{network}/{ifname}"[:_MOST_BYTES]


class LeaseContext(NamedTuple):
    """The parts that all leases of an attachment share."""

    loop: Loop
    pod: PodInterface
    limits: Limits
    log: Callable[[str], object]
    identifier: str
    """See `client_id`."""


class LeaseClient:
    """The lease of one IP version; `told` is called with Action.COMMIT, Action.REFUSED or LeaseEvent.GONE."""

    version = 0

    def __init__(self, context: LeaseContext) -> None:
        self.pod = context.pod
        self.lease = Lease(context.limits)
        self._loop = context.loop
        self._armed = float("inf")
        self.wire: Wire | None = None
        self.told: Callable[[str], object] = lambda _: None
        self.flaw = ""
        """Why the server's last answer, or the interface, is of no use."""
        self.mac = ""
        """Of the pod's interface when a message was last sent."""
        self._log = context.log
        self._xid = 0
        self._last = ""
        self._since = 0.0
        self._look = 0.0

    def step(self, event: str, now: float, terms: Terms | None = None) -> None:
        """Take an event of the lease, and carry out the actions that follow. Raises nothing."""
        lost = self.lease.lost
        before = self.lease.state
        actions = self.lease.on(event, now, terms)
        if before != self.lease.state and event not in {LeaseEvent.START, LeaseEvent.OFFER}:
            self._log(f"{event}: {before} -> {self.lease.state}{self._in_words(event)}")
        outcome = ""
        for action in actions:
            if action in {Action.COMMIT, Action.REFUSED}:
                outcome = action
                continue
            try:
                self._do(action, now)
            except GoneError as error:
                self.flaw = str(error)
                if self.lease.state != LeaseState.ENDED:
                    self.step(LeaseEvent.GONE, now)
                    return
            except OSError as error:
                self.flaw = f"{action}: {error.strerror or error}"
                self._log(self.flaw)
        if outcome == Action.COMMIT and lost is not None:
            self._restore()
        if event == LeaseEvent.GONE and self.lease.state == LeaseState.ENDED:
            outcome = LeaseEvent.GONE
        if outcome:
            self.told(outcome)
        self.arm()

    def arm(self) -> None:
        """Wake up at the lease's next time."""
        when = self.lease.next_time()
        if when != self._armed:
            self._armed = when
            self._loop.at(when, self._tick)

    def _tick(self) -> None:
        """Take the event whose time has come, if any."""
        now = boot_time()
        if event := self.lease.due(now):
            self.step(event, now)

    def _receive(self) -> None:
        """Take all answers that have come."""
        now = boot_time()
        while self.wire is not None:
            try:
                received = self.wire.receive()
            except OSError as error:  # ENETDOWN: once, and the socket works on
                self._log(f"receiving: {error.strerror}")
                return
            if received is None:
                return
            reply = self._read(received[0])
            if reply is not None:
                self._take(reply, received[1], now)

    def close(self) -> None:
        """Close the sockets."""
        if self.wire is not None:
            self._loop.forget(self.wire)
            self.wire.close()
            self.wire = None

    def _take(self, reply: Reply, mac: str, now: float) -> None:
        """Turn an answer into an event."""
        held, event, terms = self.lease.terms, reply.event, reply.terms
        if terms is None and event != LeaseEvent.NAK:
            self.flaw = reply.flaw
            self._log(f"{event} is of no use: {reply.flaw}")
            return
        if terms is None:
            self.flaw = reply.flaw or "the server refuses the address"
        else:
            terms.server_mac = mac
            wanted = self._wanted()
            if wanted is not None and terms.address.ip != wanted.address.ip:
                self.flaw = f"the server offers {terms.address.ip} instead of {wanted.address.ip}"
                if event == LeaseEvent.OFFER:
                    return  # the pod and its runtime know the address that it had
                event, terms = LeaseEvent.NAK, None
            elif held is not None and not terms.server:
                terms.server = held.server
        self.step(event, now, terms)

    def _wanted(self) -> Terms | None:
        """Return the terms whose address alone will do; None before the first lease."""
        if self.lease.lost is not None or self.lease.state in {LeaseState.INIT, LeaseState.SELECTING}:
            return self.lease.lost
        return self.lease.terms

    def _do(self, action: str, now: float) -> None:
        """Carry out an action of the lease. Raises GoneError, OSError."""
        if action == Action.QUIET:
            self.close()
        elif action == Action.WITHDRAW:
            if self.lease.terms is not None:
                self.pod.withdraw(self.lease.terms)
        elif action == Action.RELEASE or self._is_ready(action, now):
            self._send(action, now)

    def _is_ready(self, action: str, now: float) -> bool:
        """Tell whether a message can be sent; if not, look again soon. Raises GoneError, OSError."""
        if self.wire is not None and action in {self._last, Action.REQUEST}:
            if self.pod.is_gone:
                raise GoneError(f'network namespace "{self.pod.path}" is gone')
            return True
        with self.pod.opened() as opened:
            is_first = action == Action.DISCOVER and self.lease.lost is None
            ready = self.pod.is_ready(opened, self.version, set_up=is_first)
        self._look = 0.0 if ready else min(self._look * 1.5 or _FIRST_LOOK, _LAST_LOOK)
        if not ready:
            self.flaw = f'interface "{self.pod.ifname}" is not ready to send'
            self.lease.hurry(now + self._look)
        return ready

    def _send(self, action: str, now: float) -> None:
        """Send the message of an action; open the sockets first. Raises GoneError, OSError."""
        if self.wire is None:
            with self.pod.opened() as opened:
                self.mac = opened.link.mac
                self.wire = self._open(opened)
            self._loop.watch(self.wire, self._receive)
        if action != self._last:
            if self._is_exchange(action):
                self._xid = int.from_bytes(os.urandom(3))
            self._last, self._since = action, now
        self.flaw = ""
        self.wire.send(*self._message(action, now - self._since))

    def _restore(self) -> None:
        try:
            if self.lease.terms is not None:
                self.pod.restore(self.lease.terms)
        except (GoneError, OSError) as error:
            self._log(f"giving the address back: {error}")

    def _in_words(self, event: str) -> str:
        terms = self.lease.terms
        return f", {terms.address} for {terms.lifetime} s" if event == LeaseEvent.ACK and terms is not None else ""

    def _is_exchange(self, action: str) -> bool:
        """Tell whether an action's message begins a transaction with a number of its own."""
        raise NotImplementedError

    def _open(self, opened: Opened) -> Wire:
        raise NotImplementedError

    def _message(self, action: str, elapsed: float) -> tuple[bytes, str]:
        """Return the message of an action and the hardware address to send it to, "" for all."""
        raise NotImplementedError

    def _read(self, received: bytes) -> Reply | None:
        raise NotImplementedError


class Client4(LeaseClient):
    """A lease of an IPv4 address."""

    version = 4
    _KINDS: ClassVar = {
        Action.DISCOVER: dhcpv4.DISCOVER,
        Action.REQUEST: dhcpv4.REQUEST,
        Action.VERIFY: dhcpv4.REQUEST,
        Action.RENEW: dhcpv4.REQUEST,
        Action.REBIND: dhcpv4.REQUEST,
        Action.RELEASE: dhcpv4.RELEASE,
    }

    def __init__(self, context: LeaseContext, options: Mapping[int, bytes], *, broadcast: bool) -> None:
        """`options` are the configuration's; `broadcast` asks for answers to all, as ipvlan needs."""
        super().__init__(context)
        self._client_id = b"\0" + context.identifier.encode()
        self._options = options
        self._broadcast = broadcast

    def _is_exchange(self, action: str) -> bool:
        return action != Action.REQUEST

    def _open(self, opened: Opened) -> Wire:
        return Packets(opened.namespace, self.pod.ifname)

    def _message(self, action: str, elapsed: float) -> tuple[bytes, str]:
        del elapsed
        client = dhcpv4.Client(
            self._client_id, bytes.fromhex(self.mac.replace(":", "")), self._options, self._broadcast
        )
        terms = self.lease.lost if action == Action.DISCOVER else self.lease.terms
        renewing = action in {Action.RENEW, Action.REBIND}
        if terms is not None and action == Action.REBIND:
            terms = Terms(**{**vars(terms), "server": ""})
        packet = dhcpv4.message(self._KINDS[action], client, self._xid, terms=terms, renewing=renewing)
        return packet, terms.server_mac if terms is not None and action in {Action.RENEW, Action.RELEASE} else ""

    def _read(self, received: bytes) -> Reply | None:
        return dhcpv4.read_reply(received, self._xid, bytes.fromhex(self.mac.replace(":", "")))


class Client6(LeaseClient):
    """A lease of an IPv6 address."""

    version = 6
    _KINDS: ClassVar = {
        Action.DISCOVER: dhcpv6.SOLICIT,
        Action.REQUEST: dhcpv6.REQUEST,
        Action.VERIFY: dhcpv6.REBIND,
        Action.RENEW: dhcpv6.RENEW,
        Action.REBIND: dhcpv6.REBIND,
        Action.RELEASE: dhcpv6.RELEASE,
    }

    def __init__(self, context: LeaseContext) -> None:
        """The DUID is of the attachment, as if each pod were a machine (DUID-UUID, RFC 6355)."""
        super().__init__(context)
        digest = hashlib.sha256(context.identifier.encode()).digest()
        self._duid = b"\0\4" + digest[:16]
        self._iaid = digest[16:20]

    def _is_exchange(self, action: str) -> bool:
        del action
        return True

    def _open(self, opened: Opened) -> Wire:
        return Datagrams(opened.namespace, self.pod.ifname, opened.link.ifindex)

    def _message(self, action: str, elapsed: float) -> tuple[bytes, str]:
        terms = self.lease.lost if action == Action.DISCOVER else self.lease.terms
        message = dhcpv6.message(self._KINDS[action], self._xid, self._duid, self._iaid, terms=terms, elapsed=elapsed)
        return message, ""

    def _read(self, received: bytes) -> Reply | None:
        return dhcpv6.read_reply(received, self._xid, self._duid, self._iaid)
