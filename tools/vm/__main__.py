"""Run tests in virtual machines, side by side: `python -m tools.vm [OPTION...] [-- ARGUMENT...]`, these of pytest."""

import subprocess
import sys
from argparse import ArgumentParser
from concurrent.futures import ThreadPoolExecutor

from tools.vm.kernel import METAPACKAGE, Kernel, debian_kernel
from tools.vm.machines import BUILD, KERNELS, MACHINES, ON_REQUEST
from tools.vm.outcome import Outcome, write_junit

_JUNIT = BUILD / "junit-vm.xml"
_MACHINE_HELP = f"may be repeated  [all except {', '.join(sorted(ON_REQUEST))}]"


def main(arguments: list[str]) -> int:
    """Boot, wait, gather the results; return the first exit code that is not 0."""
    own, further = arguments, []
    if "--" in arguments:
        cut = arguments.index("--")
        own, further = arguments[:cut], arguments[cut + 1 :]
    parser = ArgumentParser(prog="python -m tools.vm", description=__doc__)
    parser.add_argument(
        "--limit", type=float, default=3000.0, metavar="SECONDS", help="for each machine  [%(default)s]"
    )
    parser.add_argument("--machine", action="append", choices=MACHINES, help=_MACHINE_HELP)
    options = parser.parse_args(own)

    _JUNIT.unlink(missing_ok=True)
    names = options.machine or [name for name in MACHINES if name not in ON_REQUEST]
    # One after the other: apt works for one at a time.
    kernels = {package: debian_kernel(BUILD / "vm" / "cache", package) for package in sorted(set(map(_kernel, names)))}
    with ThreadPoolExecutor(len(names)) as threads:
        outcomes = list(threads.map(lambda name: _outcome(name, kernels[_kernel(name)], further, options.limit), names))
    write_junit(outcomes, _JUNIT)
    for outcome in outcomes:
        sys.stdout.write(f"{outcome}\n")
    return next((outcome.code for outcome in outcomes if outcome.code), 0)


def _kernel(machine: str) -> str:
    """Return the package of a machine's kernel."""
    return KERNELS.get(machine, METAPACKAGE)


def _outcome(name: str, kernel: Kernel, arguments: list[str], limit: float) -> Outcome:
    """Make a machine and run it; if that fails, the others go on."""
    try:
        machine = MACHINES[name](kernel, arguments)
        code = machine.run(limit)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return Outcome(name, 1, None, f"{type(error).__name__}: {error}")
    return Outcome(name, code, machine.exchange / "junit.xml", str(machine.console))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
