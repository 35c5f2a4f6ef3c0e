"""Executing a program and killing it on the way: at its n-th system call, or some time after its start.

    python -I kill_at_point.py calls N SIGNAL REPORT PROGRAM
    python -I kill_at_point.py after MICROSECONDS SIGNAL REPORT PROGRAM

PROGRAM gets the standard streams and the environment unchanged. SIGNAL is a number. SIGKILL also ends all processes
that PROGRAM has started; another signal is for PROGRAM alone, which may go on. REPORT gets two numbers as text: the
system calls (ptrace(2) stops the program at each) and the microseconds. With N = 0 nothing is killed.
This is a program of its own because the process that traces has to wait for all its children.
"""

import ctypes
import os
import signal
import sys
import time

# include/uapi/linux/ptrace.h
_TRACEME, _SYSCALL, _SETOPTIONS = 0, 24, 0x4200
_TRACESYSGOOD, _TRACEFORK, _TRACEVFORK, _TRACECLONE, _TRACEEXEC = 1, 2, 4, 8, 16
_EXITKILL = 1 << 20
_OPTIONS = _TRACESYSGOOD | _TRACEFORK | _TRACEVFORK | _TRACECLONE | _TRACEEXEC | _EXITKILL
_SYSCALL_STOP = signal.SIGTRAP | 0x80
_WALL = 0x40000000

_libc = ctypes.CDLL(None, use_errno=True)


def main(how: str, at: str, number: str, report: str, program: str) -> int:
    """Execute and kill; return the exit code, as a shell tells it."""
    point, ending = int(at), signal.Signals(int(number))
    began = time.monotonic_ns()
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)  # in both processes, since either may come first
        if how == "calls":
            _ptrace(_TRACEME, 0, 0)
            os.kill(os.getpid(), signal.SIGSTOP)
        os.execv(program, [program])  # noqa: S606 -- the standard streams and the environment are handed on
    _set_group(child)
    calls, status = _Tracer(child, point, ending).run() if how == "calls" else (0, _end_after(child, point, ending))
    microseconds = (time.monotonic_ns() - began) // 1000
    with open(report, "w", encoding="ascii") as file:  # noqa: PTH123 -- one module less to import
        file.write(f"{calls} {microseconds}")
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _set_group(child: int) -> None:
    try:
        os.setpgid(child, child)
    except PermissionError:
        return  # it is executing already, and has set it itself


def _end_after(child: int, microseconds: int, ending: signal.Signals) -> int:
    if microseconds:
        time.sleep(microseconds / 1e6)
        if ending == signal.SIGKILL:
            os.killpg(child, ending)  # its own group exists by now, or it is not reaped yet
        else:
            os.kill(child, ending)
    return os.waitpid(child, 0)[1]


class _Tracer:
    """Counts the system calls of a process and of all its descendants."""

    def __init__(self, child: int, last: int, ending: signal.Signals) -> None:
        self._child = child
        self._last = last
        self._ending = ending
        self._calls = 0
        self._inside: set[int] = set()
        self._known: set[int] = set()

    def run(self) -> tuple[int, int]:
        """Run to the end; return the number of calls that were begun, and the wait status of the first process."""
        status_of_child = 0
        while True:
            try:
                pid, status = os.waitpid(-1, _WALL)
            except ChildProcessError:
                return self._calls, status_of_child
            if os.WIFSTOPPED(status):
                self._go_on(pid, status)
            else:
                self._known.discard(pid)
                if pid == self._child:
                    status_of_child = status

    def _go_on(self, pid: int, status: int) -> None:
        stopped_by = os.WSTOPSIG(status)
        deliver = 0
        if pid not in self._known:
            self._known.add(pid)
            _ptrace(_SETOPTIONS, pid, _OPTIONS)
        elif stopped_by == _SYSCALL_STOP:
            self._count(pid)
        elif status >> 16 == 0 and stopped_by != signal.SIGTRAP:
            deliver = stopped_by
        _ptrace(_SYSCALL, pid, deliver)

    def _count(self, pid: int) -> None:
        if pid in self._inside:
            self._inside.remove(pid)
            return
        self._inside.add(pid)
        self._calls += 1
        if self._calls == self._last:
            for known in self._known if self._ending == signal.SIGKILL else (self._child,):
                if _is_traced(known):
                    os.kill(known, self._ending)


def _is_traced(pid: int) -> bool:
    """Tell whether this process traces the one with this PID: if not, it has ended, and the PID may be another's.

    The PID of a traced process is not used again before this process has waited for it.
    """
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:  # noqa: PTH123 -- as above
            return f"TracerPid:\t{os.getpid()}\n" in file.read()
    except OSError:
        return False


def _ptrace(request: int, pid: int, argument: int) -> None:
    # A process that is killed does not stop any more; the error is of no consequence here.
    _libc.ptrace(ctypes.c_long(request), ctypes.c_long(pid), None, ctypes.c_void_p(argument))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
