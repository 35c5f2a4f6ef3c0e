"""The life of a lease: every state, every event and every step from one to the other, in one table.

It is the same for DHCPv4 (RFC 2131 section 4.4) and DHCPv6 (RFC 8415 section 18.2), whose messages have other names:
DISCOVER is SOLICIT, OFFER is ADVERTISE, ACK is REPLY with the address, NAK is REPLY without it.

                 START
                   |            DISCOVER again at each RESEND
                   v           .-----.
     .------> SELECTING <------'     |       ADOPT
     |             |  ^--------------'         |
     |       OFFER |                           v
     |             v     NAK, GIVE_UP      REBOOTING --- NAK ---> ENDED
     |<------ REQUESTING                       |
     |             | ACK                       | ACK
     |             v                           |
     |    .----> BOUND <-----------------------'
     |    |        | T1
     |    |ACK     v
     |    |---- RENEWING ---- NAK -----.
     |    |        | T2                |
     |    |ACK     v                   |
     |    '---- REBINDING --- NAK -----|     the address is taken from the interface,
     |             | EXPIRY            |     and the same address is asked for anew
     |             v                   |
     '----------- lost <---------------'

    from every state: STOP, the pod is deleted (with a RELEASE of its address); GONE, its namespace or interface is
    gone; then the state is ENDED, which has no way out.

Here is no input and no output: `Lease.on` takes an event and returns the actions, which are for `attachment`.
"""

from random import uniform

from fast_stdlib.typing import NamedTuple

from .store import Terms


class LeaseState:
    """The state of a lease; the values are in files on disk."""

    INIT = "init"
    SELECTING = "selecting"
    REQUESTING = "requesting"
    REBOOTING = "rebooting"
    BOUND = "bound"
    RENEWING = "renewing"
    REBINDING = "rebinding"
    ENDED = "ended"


class LeaseEvent:
    """Events: of the plugin, of the server, of the clock."""

    START = "start"
    ADOPT = "adopt"
    OFFER = "offer"
    ACK = "ack"
    NAK = "nak"
    RESEND = "resend"
    GIVE_UP = "give up"
    T1 = "T1"
    T2 = "T2"
    EXPIRY = "expiry"
    STOP = "stop"
    GONE = "gone"


class Action:
    """Orders to the owner of a lease."""

    DISCOVER = "discover"
    REQUEST = "request"
    VERIFY = "verify"
    RENEW = "renew"
    REBIND = "rebind"
    RELEASE = "release"
    COMMIT = "commit"
    """The server's terms hold: store them, and answer the verb that waits for the lease."""
    WITHDRAW = "withdraw"
    """Take the address from the interface."""
    REFUSED = "refused"
    """Answer the verb that waits with the server's refusal."""
    QUIET = "quiet"
    """No answer is expected: close the sockets."""


_S, _E, _A = LeaseState, LeaseEvent, Action

# (state, event): (next state, actions). An event that is not here is ignored: a late or repeated answer.
TABLE: dict[tuple[str, str], tuple[str, tuple[str, ...]]] = {
    (_S.INIT, _E.START): (_S.SELECTING, (_A.DISCOVER,)),
    (_S.INIT, _E.ADOPT): (_S.REBOOTING, (_A.VERIFY,)),
    (_S.SELECTING, _E.RESEND): (_S.SELECTING, (_A.DISCOVER,)),
    (_S.SELECTING, _E.OFFER): (_S.REQUESTING, (_A.REQUEST,)),
    (_S.SELECTING, _E.ACK): (_S.BOUND, (_A.COMMIT, _A.QUIET)),  # rapid commit
    (_S.REQUESTING, _E.RESEND): (_S.REQUESTING, (_A.REQUEST,)),
    (_S.REQUESTING, _E.GIVE_UP): (_S.SELECTING, (_A.DISCOVER,)),
    (_S.REQUESTING, _E.NAK): (_S.SELECTING, (_A.DISCOVER,)),
    (_S.REQUESTING, _E.ACK): (_S.BOUND, (_A.COMMIT, _A.QUIET)),
    (_S.REBOOTING, _E.RESEND): (_S.REBOOTING, (_A.VERIFY,)),
    (_S.REBOOTING, _E.NAK): (_S.ENDED, (_A.REFUSED, _A.QUIET)),
    (_S.REBOOTING, _E.ACK): (_S.BOUND, (_A.COMMIT, _A.QUIET)),
    (_S.BOUND, _E.T1): (_S.RENEWING, (_A.RENEW,)),
    (_S.BOUND, _E.T2): (_S.REBINDING, (_A.REBIND,)),  # the daemon was away at T1
    (_S.RENEWING, _E.RESEND): (_S.RENEWING, (_A.RENEW,)),
    (_S.RENEWING, _E.ACK): (_S.BOUND, (_A.COMMIT, _A.QUIET)),
    (_S.RENEWING, _E.NAK): (_S.SELECTING, (_A.WITHDRAW, _A.DISCOVER)),
    (_S.RENEWING, _E.T2): (_S.REBINDING, (_A.REBIND,)),
    (_S.REBINDING, _E.RESEND): (_S.REBINDING, (_A.REBIND,)),
    (_S.REBINDING, _E.ACK): (_S.BOUND, (_A.COMMIT, _A.QUIET)),
    (_S.REBINDING, _E.NAK): (_S.SELECTING, (_A.WITHDRAW, _A.DISCOVER)),
    (_S.BOUND, _E.EXPIRY): (_S.SELECTING, (_A.WITHDRAW, _A.DISCOVER)),
    (_S.RENEWING, _E.EXPIRY): (_S.SELECTING, (_A.WITHDRAW, _A.DISCOVER)),
    (_S.REBINDING, _E.EXPIRY): (_S.SELECTING, (_A.WITHDRAW, _A.DISCOVER)),
    (_S.INIT, _E.STOP): (_S.ENDED, ()),
    (_S.SELECTING, _E.STOP): (_S.ENDED, (_A.QUIET,)),
    (_S.REQUESTING, _E.STOP): (_S.ENDED, (_A.RELEASE, _A.QUIET)),  # the server may have committed
    (_S.REBOOTING, _E.STOP): (_S.ENDED, (_A.QUIET,)),
    (_S.BOUND, _E.STOP): (_S.ENDED, (_A.WITHDRAW, _A.RELEASE, _A.QUIET)),
    (_S.RENEWING, _E.STOP): (_S.ENDED, (_A.WITHDRAW, _A.RELEASE, _A.QUIET)),
    (_S.REBINDING, _E.STOP): (_S.ENDED, (_A.WITHDRAW, _A.RELEASE, _A.QUIET)),
} | {
    (state, _E.GONE): (_S.ENDED, (_A.QUIET,))
    for state in (_S.INIT, _S.SELECTING, _S.REQUESTING, _S.REBOOTING, _S.BOUND, _S.RENEWING, _S.REBINDING)
}

_SENDING = {_A.DISCOVER, _A.REQUEST, _A.VERIFY, _A.RENEW, _A.REBIND}
_HOLDING = {_S.BOUND, _S.RENEWING, _S.REBINDING}
_FIRST_RESEND = 1.0
"""Seconds. RFC 2131 says 4; a pod waits for its start."""
_LEAST_RENEWAL = 60.0
"""Seconds between two messages while a lease is renewed (RFC 2131 section 4.4.5); less for leases of minutes."""


class Limits(NamedTuple):
    """The daemon's options, in seconds."""

    timeout: float = 10.0
    """For the answer to a REQUEST; then a DISCOVER begins anew."""
    resend_max: float = 62.0
    """Between two messages of one kind."""


class Lease:
    """One lease: its state, the server's terms, and the times of the next events."""

    def __init__(self, limits: Limits) -> None:
        """Begin in INIT."""
        self._limits = limits
        self.state = LeaseState.INIT
        self.terms: Terms | None = None
        """The server's grant; in REQUESTING its offer; in REBOOTING the address that it is asked about."""
        self.obtained = 0.0
        """When the message was sent that `terms` answer, in the seconds of the clock that all times here have."""
        self.lost: Terms | None = None
        """The terms of a lease that has ended without the pod's doing; they are asked for again."""
        self._sent = 0.0
        self._resend_at = 0.0
        self._delay = 0.0
        self._give_up_at = 0.0

    def resume(self, terms: Terms, obtained: float) -> None:
        """Go on with a lease that was granted before: after a restart of the daemon."""
        self.state, self.terms, self.obtained = LeaseState.BOUND, terms, obtained

    @property
    def holds(self) -> bool:
        """Whether the pod may use the address now."""
        return self.state in _HOLDING

    @property
    def expires(self) -> float:
        """When the lease ends; only while it holds."""
        assert self.terms is not None  # noqa: S101 -- a lease that holds has terms
        return self.obtained + self.terms.lifetime

    def on(self, event: str, now: float, terms: Terms | None = None) -> tuple[str, ...]:
        """Take an event; return the actions. `terms` come with OFFER, ACK and ADOPT. An untimely event is ignored."""
        step = TABLE.get((self.state, event))
        if step is None:
            return ()
        before, (self.state, actions) = self.state, step
        if Action.WITHDRAW in actions and event != LeaseEvent.STOP:
            self.lost = self.terms
        if terms is not None:
            if event == LeaseEvent.ACK:
                self.obtained = self._sent
                self.lost = None
            self.terms = terms
        if before != self.state:
            self._delay = 0.0
        if before != self.state and self.state == LeaseState.REQUESTING:
            self._give_up_at = now + self._limits.timeout
        if not _SENDING.isdisjoint(actions):
            self._schedule(now)
        return actions

    def due(self, now: float) -> str | None:
        """Return the event whose time has come, if any."""
        if self.state in _HOLDING:
            assert self.terms is not None  # noqa: S101 -- as above
            if now >= self.expires:
                return LeaseEvent.EXPIRY
            if self.state != LeaseState.REBINDING and now >= self.obtained + self.terms.t2:
                return LeaseEvent.T2
            if self.state == LeaseState.BOUND:
                return LeaseEvent.T1 if now >= self.obtained + self.terms.t1 else None
        if self.state == LeaseState.REQUESTING and now >= self._give_up_at:
            return LeaseEvent.GIVE_UP
        if self.state in {LeaseState.INIT, LeaseState.ENDED}:
            return None
        return LeaseEvent.RESEND if now >= self._resend_at else None

    def next_time(self) -> float:
        """Return when `due` has something next; infinity if never."""
        if self.state in {LeaseState.INIT, LeaseState.ENDED}:
            return float("inf")
        if self.state not in _HOLDING:
            return min(self._resend_at, self._give_up_at) if self.state == LeaseState.REQUESTING else self._resend_at
        assert self.terms is not None  # noqa: S101 -- as above
        if self.state == LeaseState.BOUND:
            return self.obtained + min(self.terms.t1, self.terms.t2, self.terms.lifetime)
        limit = self.expires if self.state == LeaseState.REBINDING else self.obtained + self.terms.t2
        return min(self._resend_at, limit, self.expires)

    def hurry(self, at: float) -> None:
        """Send the message again at that time: it could not be sent."""
        self._delay = 0.0
        self._resend_at = at

    def _schedule(self, now: float) -> None:
        """Set the time of the next message, if no answer comes."""
        self._sent = now
        if self.state in {LeaseState.RENEWING, LeaseState.REBINDING}:
            assert self.terms is not None  # noqa: S101 -- as above
            end = self.expires if self.state == LeaseState.REBINDING else self.obtained + self.terms.t2
            least = min(_LEAST_RENEWAL, self.terms.lifetime / 8)
            self._resend_at = now + max((end - now) / 2, least)
            return
        self._delay = min(self._delay * 2 or _FIRST_RESEND, self._limits.resend_max)
        self._resend_at = now + self._delay * uniform(0.9, 1.1)  # noqa: S311 -- so that pods do not ask all at once
