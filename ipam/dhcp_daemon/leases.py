"""All attachments of the daemon: the verbs of the plugin, the events of their sockets and clocks, their files."""

from collections.abc import Callable

from fast_stdlib.typing import NamedTuple
from skel import CniError, Code

from .attachment import NO_LEASE, LeasedAttachment, key_of
from .lease import Limits
from .loop import Loop, boot_time
from .pod_interface import GoneError, PodInterface
from .protocol import Question
from .store import Key, LeaseStore, StoredAttachment, boot_id

_SWEEP_SECONDS = 5.0
"""Between two looks for network namespaces that are gone."""
_LAST_WORD_SECONDS = 3.0
"""For the server's answer about a lease of another daemon, before it is released."""

Reply = Callable[[CniError | None, LeasedAttachment | None], object]


class DaemonOptions(NamedTuple):
    """The daemon's flags; times in seconds."""

    data_dir: str
    host_prefix: str = ""
    limits: Limits = Limits()
    resend_timeout: float = 208.0
    """For an ADD; the reference's."""
    broadcast: bool = False


class Leases:
    """The attachments by their names. No function waits: `reply` is called now or later, once."""

    def __init__(self, options: DaemonOptions, loop: Loop, log: Callable[[str], object]) -> None:
        self._options = options
        self._loop = loop
        self._log = log
        self._store = LeaseStore(options.data_dir)
        self._boot = boot_id()
        self._held: dict[Key, LeasedAttachment] = {}
        loop.at(boot_time() + _SWEEP_SECONDS, self._sweep)

    def __len__(self) -> int:
        return len(self._held)

    def load(self) -> None:
        """Go on with the leases on disk, except those of pods that are gone. Raises OSError."""
        for path in self._store.strays():
            self._log(f"{path}: not a file of a lease: left alone")
        for key, noted in list(self._store.all()):
            try:
                attachment = self._resumed(key, noted)
            except (CniError, GoneError) as error:
                self._log(f"{'/'.join(key)}: its lease ends: {error}")
                self._store.remove(key)
                continue
            self._hold(attachment)

    def add(self, question: Question, reply: Reply) -> LeasedAttachment | None:
        """Get leases; return the attachment while the server is asked. The one that has them keeps them.

        Raises CniError, GoneError, OSError.
        """
        key = key_of(question)
        pod = self._pod(question)
        known = self._held.get(key)
        if known is not None and known.pod.identity == pod.identity and known.holds:
            reply(None, known)
            return None
        if known is not None:
            self._drop(known, tell_server=True)
        attachment = self._made(question, pod)
        self._hold(attachment)
        self._wait(attachment, reply, self._options.resend_timeout)
        attachment.begin(boot_time())
        return attachment if attachment.done is not None else None

    def check(self, question: Question, reply: Reply) -> None:
        """See that the leases are held; ask the servers if no daemon of ours has made them.

        Raises CniError, GoneError, OSError.
        """
        known = self._held.get(key_of(question))
        if known is not None:
            known.question.expected = question.expected
            known.check()
            reply(None, None)
            return
        if not question.expected:
            raise CniError(NO_LEASE, f"{question.ifname} of container {question.container_id} has no lease")
        attachment = self._made(question, self._pod(question))
        self._hold(attachment)
        self._wait(attachment, reply, self._options.limits.timeout)
        attachment.adopt(question.expected, boot_time())

    def delete(self, question: Question, reply: Reply) -> None:
        """Release the leases, also those that another daemon has left. Raises CniError, OSError."""
        known = self._held.get(key_of(question))
        if known is not None:
            self._drop(known, tell_server=True)
            reply(None, None)
            return
        self._store.remove(key_of(question))
        if not question.expected or not question.netns:
            reply(None, None)
            return
        try:
            pod = self._pod(question)
            with pod.opened():
                pass
        except GoneError:
            reply(None, None)
            return

        def release(*_: object) -> None:
            if self._held.get(attachment.key) is attachment:
                self._drop(attachment, tell_server=True)
            reply(None, None)

        question.versions = sorted({address.version for address in question.expected})
        attachment = self._made(question, pod)
        self._hold(attachment)
        self._wait(attachment, release, _LAST_WORD_SECONDS)
        attachment.adopt(question.expected, boot_time())

    def collect(self, question: Question) -> None:
        """Release the leases of attachments to the network that are not valid. Raises CniError, OSError."""
        valid = {(question.network, container_id, ifname) for container_id, ifname in question.valid}
        for key in [key for key in self._held if key[0] == question.network and key not in valid]:
            self._drop(self._held[key], tell_server=True)
        for container_id, ifname in self._store.attachments(question.network):
            key = (question.network, container_id, ifname)
            if key not in valid and key not in self._held:
                self._store.remove(key)

    def abandon(self, attachment: LeasedAttachment) -> None:
        """End an ADD that nobody waits for any more."""
        if self._held.get(attachment.key) is attachment:
            self._log(f"{'/'.join(attachment.key)}: the plugin is gone: its ADD is undone")
            self._drop(attachment, tell_server=True)

    def _wait(self, attachment: LeasedAttachment, reply: Reply, seconds: float) -> None:
        """Call `reply` when the leases are held, or with an error; an attachment without them is dropped."""

        def done(error: CniError | None) -> None:
            if error is None and attachment.question.verb != "ADD":
                try:
                    attachment.check()
                except CniError as different:
                    error = different
            if error is not None and self._held.get(attachment.key) is attachment:
                self._drop(attachment, tell_server=attachment.question.verb == "ADD")
            reply(error, attachment)

        def late() -> None:
            if attachment.done is done:
                attachment.done = None
                message = f'{attachment.reason} on "{attachment.pod.ifname}" within {seconds:g} s'
                done(CniError(Code.TRY_AGAIN_LATER, message))

        attachment.done = done
        self._loop.at(boot_time() + seconds, late)

    def _pod(self, question: Question) -> PodInterface:
        return PodInterface(self._options.host_prefix + question.netns, question.ifname)

    def _made(self, question: Question, pod: PodInterface) -> LeasedAttachment:
        return LeasedAttachment(
            question,
            pod,
            self._options.limits,
            loop=self._loop,
            broadcast=self._options.broadcast,
            log=self._log,
            store=self._store,
            boot=self._boot,
        )

    def _resumed(self, key: Key, noted: StoredAttachment | CniError) -> LeasedAttachment:
        """Return the attachment of a file. Raises CniError, GoneError."""
        if isinstance(noted, CniError):
            raise noted
        question = Question.decode(noted.request)
        if noted.boot != self._boot:
            raise GoneError("it is of an earlier boot")
        if key_of(question) != key:
            raise GoneError("its file is of another attachment")
        path = self._options.host_prefix + noted.netns
        pod = PodInterface(path, question.ifname, (noted.device, noted.inode))
        if pod.is_gone:
            raise GoneError(f'network namespace "{path}" is gone')
        attachment = self._made(question, pod)
        attachment.resume(noted)
        if not attachment.holds:
            raise GoneError("its file lacks a lease")
        return attachment

    def _hold(self, attachment: LeasedAttachment) -> None:
        self._held[attachment.key] = attachment

        def gone() -> None:
            if self._held.get(attachment.key) is attachment:
                self._drop(attachment, tell_server=False)

        attachment.ended = gone

    def _drop(self, attachment: LeasedAttachment, *, tell_server: bool) -> None:
        """End an attachment; a file that cannot be removed is logged. The next start of the daemon tries again."""
        self._held.pop(attachment.key, None)
        try:
            (attachment.stop if tell_server else attachment.abandon)(boot_time())
        except (CniError, OSError) as error:
            self._log(f"{'/'.join(attachment.key)}: its file stays: {error}")

    def _sweep(self) -> None:
        """End the leases of pods whose network namespace is gone: no runtime may ever send their DEL."""
        for attachment in [each for each in self._held.values() if each.pod.is_gone]:
            self._log(f"{'/'.join(attachment.key)}: its network namespace is gone: its lease ends")
            self._drop(attachment, tell_server=False)
        self._loop.at(boot_time() + _SWEEP_SECONDS, self._sweep)
