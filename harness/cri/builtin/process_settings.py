"""The process of a container: command, environment, folder, user and rights, of the request and of the image."""

from pathlib import Path
from typing import Final, NamedTuple

from harness.cri.builtin.capabilities import capabilities
from harness.cri.builtin.images import ImageConfig
from harness.cri.builtin.users import User, user_of
from harness.cri.messages import ContainerConfig
from harness.cri.service import RuntimeServiceError

_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class ProcessSettings(NamedTuple):
    """A process before it is made; `capabilities` are names without CAP_."""

    arguments: list[str]
    environment: dict[str, str]
    folder: str
    user: User
    capabilities: set[str]


def arguments_of(config: ContainerConfig, image: ImageConfig) -> list[str]:
    """Return the command of a container (containerd's WithProcessArgs). Raises RuntimeServiceError if there is none."""
    command, arguments = config.command, config.args
    if not command:
        command = [] if image.entrypoint == [""] else image.entrypoint
        arguments = arguments or image.cmd
    if not command + arguments:
        raise RuntimeServiceError("no command specified")
    return command + arguments


def process_settings(
    config: ContainerConfig, image: ImageConfig, root: Path, hostname: str, arguments: list[str]
) -> ProcessSettings:
    """Return the process of a container with the files of `root`. Raises RuntimeServiceError."""
    security = config.security
    user = user_of(root, security, image.user)
    environment = {"PATH": _PATH, "HOSTNAME": hostname}
    if config.tty:
        environment["TERM"] = "xterm"
    environment |= dict(pair.partition("=")[::2] for pair in image.env)
    environment |= {each.key: each.value for each in config.envs}
    environment.setdefault("HOME", user.home)
    try:
        allowed = capabilities(security.add_capabilities, security.drop_capabilities, privileged=security.privileged)
    except ValueError as error:
        raise RuntimeServiceError(str(error)) from None
    return ProcessSettings(arguments, environment, config.working_dir or image.working_dir or "/", user, allowed)
