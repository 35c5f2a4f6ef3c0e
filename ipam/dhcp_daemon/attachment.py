"""All leases of one attachment: begun together, kept on disk together, ended together."""

from collections.abc import Callable, Iterable

from skel import Address, CniError, Code, IPConfig, Result, with_length

from .client import Client4, Client6, LeaseClient, LeaseContext, client_id
from .lease import Action, LeaseEvent, Limits
from .loop import Loop
from .pod_interface import PodInterface
from .protocol import Question
from .store import Key, LeaseStore, StoredAttachment, StoredLease, Terms

NO_LEASE = 101
"""Our error code for a CHECK that misses a lease. (Spec code 3 would stop the runtime from cleaning up.)"""
_IPV4 = 4
_ALL_BITS = {4: 32, 6: 128}


def key_of(question: Question) -> Key:
    """Return the name of the attachment that a question is about."""
    return question.network, question.container_id, question.ifname


class LeasedAttachment:
    """The leases of an attachment, one of each IP version that its network wants.

    `done` is called with None when all are held, or with the error that ends the wait. After that, `ended` is called
    if the attachment is gone.
    """

    def __init__(  # noqa: PLR0913 -- the parts of an attachment
        self,
        question: Question,
        pod: PodInterface,
        limits: Limits,
        *,
        loop: Loop,
        broadcast: bool,
        log: Callable[[str], object],
        store: LeaseStore,
        boot: str,
    ) -> None:
        self.key = key_of(question)
        self.question = question
        self.pod = pod
        self.done: Callable[[CniError | None], object] | None = None
        self.ended: Callable[[], object] = lambda: None
        self._store = store
        self._boot = boot
        network, container_id, ifname = self.key
        identifier = client_id(container_id, network, ifname)

        def log_it(text: str) -> None:
            log(f"{identifier}: {text}")

        self._log = log_it
        context = LeaseContext(loop, pod, limits, log_it, identifier)
        options = {int(code): bytes.fromhex(value) for code, value in question.options.items()}
        self.clients: list[LeaseClient] = [
            Client4(context, options, broadcast=broadcast) if version == _IPV4 else Client6(context)
            for version in question.versions
        ]
        for client in self.clients:
            client.told = self._told

    def begin(self, now: float) -> None:
        """Ask for new leases."""
        for client in self.clients:
            client.step(LeaseEvent.START, now)

    def adopt(self, addresses: Iterable[Address], now: float) -> None:
        """Ask the servers whether these addresses are still the attachment's: leases that another daemon had."""
        for client in self.clients:
            for address in addresses:
                if address.version == client.version:
                    whole = with_length(address, _ALL_BITS[client.version])
                    terms = Terms(address=whole, lifetime=0, t1=0, t2=0)
                    client.step(LeaseEvent.ADOPT, now, terms)
                    break

    def resume(self, noted: StoredAttachment) -> None:
        """Go on with the leases on disk."""
        for held in noted.leases:
            for client in self.clients:
                if client.version == held.terms.address.version:
                    client.lease.resume(held.terms, held.obtained_ms / 1000)
                    client.arm()

    def stop(self, now: float) -> None:
        """Release the leases, and forget them. Raises OSError if their file cannot be removed."""
        self._end(LeaseEvent.STOP, now)
        self._store.remove(self.key)

    def abandon(self, now: float) -> None:
        """Forget the leases; the servers are not told."""
        self._end(LeaseEvent.GONE, now)
        self._store.remove(self.key)

    @property
    def holds(self) -> bool:
        """Whether the pod has all its addresses."""
        return all(client.lease.holds for client in self.clients)

    @property
    def reason(self) -> str:
        """Why it does not hold them."""
        waiting = [client for client in self.clients if not client.lease.holds]
        reasons = [client.flaw or f"no DHCPv{client.version} server answers" for client in waiting]
        return "; ".join(dict.fromkeys(reasons))

    @property
    def result(self) -> Result:
        """The result of ADD; all leases are held."""
        terms = [client.lease.terms for client in self.clients if client.lease.terms is not None]
        return Result(
            ips=[IPConfig(address=each.address, gateway=each.gateway) for each in terms],
            routes=[route for each in terms for route in each.routes],
        )

    def check(self) -> None:
        """Raise CniError for a lease that is not held, or is of another address than the question expects."""
        _, container_id, ifname = self.key
        whose = f"{ifname} of container {container_id}"
        if not self.holds:
            raise CniError(NO_LEASE, f"{whose} has lost its lease: {self.reason}")
        for ip in self.result.ips:
            # A later plugin may have given it addresses of other networks.
            of_network = [address for address in self.question.expected if address in ip.address.network]
            if of_network and ip.address.ip not in of_network:
                message = f"{whose} has a lease of {ip.address.ip}, prevResult says {of_network[0]}"
                raise CniError(NO_LEASE, message)

    def _told(self, outcome: str) -> None:
        if outcome == Action.COMMIT and self.holds:
            try:
                self._note()
            except (OSError, CniError) as error:
                self._log(f"the lease is not on disk: {error}")
                self._finish(CniError(Code.IO_FAILURE, f"the DHCP daemon cannot note the lease: {error}"))
                return
            self._finish(None)
        elif outcome == Action.REFUSED:
            self._finish(CniError(NO_LEASE, self.reason))
        elif outcome == LeaseEvent.GONE:
            self._finish(CniError(Code.INTERNAL, self.reason))
            self.ended()

    def _finish(self, error: CniError | None) -> None:
        if self.done is not None:
            done, self.done = self.done, None
            done(error)

    def _note(self) -> None:
        leases = [
            StoredLease(terms=client.lease.terms, obtained_ms=int(client.lease.obtained * 1000))
            for client in self.clients
            if client.lease.terms is not None
        ]
        device, inode = self.pod.identity
        noted = StoredAttachment(
            boot=self._boot,
            netns=self.question.netns,
            device=device,
            inode=inode,
            request=self.question.encode(),
            leases=leases,
        )
        self._store.write(self.key, noted)

    def _end(self, event: str, now: float) -> None:
        self.done, self.ended = None, lambda: None
        for client in self.clients:
            client.step(event, now)
            client.close()
