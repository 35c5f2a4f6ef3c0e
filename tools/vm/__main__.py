"""Run tests in virtual machines, side by side: `python -m tools.vm [OPTION...] [-- ARGUMENT...]`, these of pytest."""

import sys
from argparse import ArgumentParser
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from xml.etree import ElementTree as ET

from tools.vm.kernel import debian_kernel
from tools.vm.machine import Machine
from tools.vm.machines import BUILD, MACHINES

__all__ = ["main"]

_JUNIT = BUILD / "junit-vm.xml"


def main(arguments: list[str]) -> int:
    """Boot, wait, gather the results; return the first exit code that is not 0."""
    own, further = arguments, []
    if "--" in arguments:
        cut = arguments.index("--")
        own, further = arguments[:cut], arguments[cut + 1 :]
    parser = ArgumentParser(prog="python -m tools.vm", description=__doc__)
    parser.add_argument(
        "--limit", type=float, default=1500.0, metavar="SECONDS", help="for each machine  [%(default)s]"
    )
    parser.add_argument("--machine", action="append", choices=MACHINES, help="which, where it is not to be all")
    options = parser.parse_args(own)

    _JUNIT.unlink(missing_ok=True)
    kernel = debian_kernel(BUILD / "vm" / "cache")

    def run(name: str) -> tuple[Machine, int]:
        machine = MACHINES[name](kernel, further)
        return machine, machine.run(options.limit)

    names = options.machine or list(MACHINES)
    with ThreadPoolExecutor(len(names)) as threads:
        outcomes = list(threads.map(run, names))
    _gather([machine for machine, _ in outcomes])
    for machine, code in outcomes:
        sys.stdout.write(f"{machine.name}: exit code {code}, {machine.console}\n")
    return next((code for _, code in outcomes if code), 0)


def _gather(machines: Iterable[Machine]) -> None:
    """Put what the machines' tests did into one file."""
    whole = ET.Element("testsuites")
    for machine in machines:
        junit = machine.exchange / "junit.xml"
        if junit.exists():
            for suite in ET.parse(junit).getroot():  # noqa: S314 -- pytest's
                suite.set("name", f"vm.{machine.name}")
                whole.append(suite)
    ET.ElementTree(whole).write(_JUNIT, encoding="utf-8", xml_declaration=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
