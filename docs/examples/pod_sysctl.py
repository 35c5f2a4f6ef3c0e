#!/opt/cni-harness/.venv/bin/python -I
"""pod-sysctl: goes after an interface plugin and sets parameters of the pod's network."""

from netlink.namespace import entered, open_namespace
from netlink.sysctl import read_sysctl, write_sysctl
from skel import Args, CniError, Code, Config, Plugin, Result, dict_of, field, main, string


class SysctlConfig(Config):
    """The keys of the specification, and `sysctls`: {"net/ipv4/tcp_keepalive_time": "60"}."""

    sysctls: dict[str, str] = field(dict_of(string), default=dict)


def add(args: Args[SysctlConfig]) -> Result:
    """Set the parameters and hand on the result of the plugins before."""
    with open_namespace(args.netns) as pod, entered(pod):
        for key, value in args.config.sysctls.items():
            if not key.startswith("net/") or ".." in key:
                raise CniError(Code.INVALID_CONFIG, f'sysctls: "{key}" is no parameter of a network')
            write_sysctl(key, value)
    return args.prev_result or Result()


def check(args: Args[SysctlConfig]) -> None:
    """Raise CniError for a parameter that has another value by now."""
    with open_namespace(args.netns) as pod, entered(pod):
        for key, value in args.config.sysctls.items():
            if (found := read_sysctl(key)).split() != value.split():
                raise CniError(Code.INTERNAL, f"{key}: expected {value}, found {found}")


def delete(args: Args[SysctlConfig]) -> None:
    """Undo nothing: the parameters go with the pod's namespace."""


PLUGIN = Plugin("pod-sysctl", config=SysctlConfig, add=add, check=check, delete=delete)

if __name__ == "__main__":
    raise SystemExit(main(PLUGIN))
