"""An exception as any system call of host-local returns, as a signal raises it, leaves no lost reservation."""

from pathlib import Path

import pytest

from tests.unit.host_local import HostLocal, at_each_system_call

# A file that is open when the exception comes is closed with the process, which a test does not end.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

MOST_CALLS = 200


class Ended(BaseException):
    """A signal's exception."""


def ended_after(call: int, net: HostLocal, verb: str) -> int:
    """Carry out a verb, raise as its n-th system call returns, and return the exit code."""
    left = call
    codes: list[int] = []

    def count(name: str) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Ended(name)

    at_each_system_call(lambda: codes.append(net.run(verb).code), count, after=True)
    return codes[0]


def ended_everywhere(tmp_path: Path, verb: str) -> list[HostLocal]:
    """Carry out a verb once for each of its system calls and end it as the call returns."""
    nets = []
    for call in range(1, MOST_CALLS):
        net = HostLocal(tmp_path / str(call))
        net.add("other")
        if verb == "DEL":
            net.add("pod")
        nets.append(net)
        if ended_after(call, net, verb) == 0:
            break
    assert len(nets) > 5
    return nets


@pytest.mark.parametrize("verb", ["ADD", "DEL"])
def test_the_next_del_removes_the_rest(tmp_path: Path, verb: str) -> None:
    for net in ended_everywhere(tmp_path, verb):
        net.succeed("DEL")

        assert set(net.reservations().values()) == {"other\r\neth0"}
        assert set(net.index()) == {"other@eth0"}
