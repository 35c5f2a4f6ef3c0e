"""Rules of the API server for names, ports, paths and addresses (apimachinery's util/validation and validate/content).

Each rule returns the flaws of a value in the API server's words; none is an empty list. Lengths are bytes.
"""

import ipaddress
import re
from typing import Final

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_WITH_UNDERSCORE: Final = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SUBDOMAIN_WITH_UNDERSCORE: Final = rf"{_LABEL_WITH_UNDERSCORE}(\.{_LABEL_WITH_UNDERSCORE})*"
_KEY: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_KEY_RULE: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)
_HEADER: Final = "[-A-Za-z0-9]+"
_CONFIG_MAP_KEY: Final = "[-._a-zA-Z0-9]+"

_LONGEST_LABEL: Final = 63
_LONGEST_SUBDOMAIN: Final = 253
_LONGEST_PORT_NAME: Final = 15
_LAST_MODE: Final = 0o777


class Between:
    """Judges a number by a lowest and a highest value (InclusiveRangeError); without a highest one, by the lowest."""

    def __init__(self, low: int, high: int | None = None) -> None:
        self.low, self.high = low, high

    def __call__(self, value: int) -> list[str]:
        """Return the flaws of a number."""
        if value >= self.low and (self.high is None or value <= self.high):
            return []
        if self.high is None:
            return [f"must be greater than or equal to {self.low}"]
        return [f"must be between {self.low} and {self.high}, inclusive"]


port_number_flaws: Final = Between(1, 65535)
"""Judges the number of a port (IsValidPortNum)."""
group_id_flaws: Final = Between(0, 2**31 - 1)
"""Judges the number of a user or group (IsValidUserID, IsValidGroupID)."""


def label_flaws(value: str) -> list[str]:
    """Judge an RFC 1123 label: names of containers and volumes, host names (IsDNS1123Label)."""
    flaws = _length_flaws(value, _LONGEST_LABEL)
    if not re.fullmatch(_LABEL, value):
        if re.fullmatch(_SUBDOMAIN, value):
            flaws.append("must not contain dots")
        else:
            flaws.append(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start "
                f"and end with an alphanumeric character{_examples(_LABEL, 'my-name', '123-abc')}"
            )
    return flaws


def subdomain_flaws(value: str, unit: str = "characters", pattern: str = _SUBDOMAIN, signs: str = "'-'") -> list[str]:
    """Judge an RFC 1123 subdomain: names of pods and config maps (IsDNS1123Subdomain)."""
    rule = (
        f"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, {signs} or '.', and must "
        "start and end with an alphanumeric character"
    )
    return _length_flaws(value, _LONGEST_SUBDOMAIN, unit) + _form_flaws(value, pattern, rule, "example.com")


def subdomain_with_underscore_flaws(value: str) -> list[str]:
    """Judge a search domain (IsDNS1123SubdomainWithUnderscore)."""
    return subdomain_flaws(value, pattern=_SUBDOMAIN_WITH_UNDERSCORE, signs="'_', '-'")


def qualified_name_flaws(value: str) -> list[str]:
    """Judge a key of a label, annotation or resource, with or without a prefix (IsQualifiedName)."""
    examples = ("MyName", "my.name", "123-abc")
    *prefixes, name = value.split("/")
    if len(prefixes) > 1:
        rule = _KEY_RULE + _examples(_KEY, *examples)
        return [f"a valid label key {rule} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"]
    flaws = []
    if prefixes:
        of_prefix = subdomain_flaws(prefixes[0], "bytes") if prefixes[0] else ["must be non-empty"]
        flaws = [f"prefix part {flaw}" for flaw in of_prefix]
    of_name = _length_flaws(name, _LONGEST_LABEL, "bytes") if name else ["must be non-empty"]
    flaws += [f"name part {flaw}" for flaw in of_name]
    return flaws + [f"name part {flaw}" for flaw in _form_flaws(name, _KEY, _KEY_RULE, *examples)]


def label_value_flaws(value: str) -> list[str]:
    """Judge the value of a label (IsValidLabelValue)."""
    rule = f"a valid label must be an empty string or {_KEY_RULE.removeprefix('must ')}"
    form = _form_flaws(value, f"({_KEY})?", rule, "MyValue", "my_value", "12345")
    return _length_flaws(value, _LONGEST_LABEL, "bytes") + form


def uid_flaws(value: str) -> list[str]:
    """Judge the UID of a pod, which is usable as the name of a folder.

    An API server makes UIDs itself; a manifest's UID names the folders of its pod, which are removed with the pod.
    """
    is_name = re.fullmatch("[A-Za-z0-9](-?[A-Za-z0-9]){0,62}", value)
    return [] if is_name else ["must be at most 63 letters and digits, with single hyphens between them"]


def port_name_flaws(value: str) -> list[str]:
    """Judge the name of a port (IsValidPortName)."""
    flaws = _length_flaws(value, _LONGEST_PORT_NAME)
    if not re.fullmatch("[-a-z0-9]+", value):
        flaws.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", value):
        flaws.append("must contain at least one letter (a-z)")
    if "--" in value:
        flaws.append("must not contain consecutive hyphens")
    if value.startswith("-") or value.endswith("-"):
        flaws.append("must not begin or end with a hyphen")
    return flaws


def port_flaws(value: int | str) -> list[str]:
    """Judge a port that is a number or a name."""
    return port_name_flaws(value) if isinstance(value, str) else port_number_flaws(value)


def env_name_flaws(value: str) -> list[str]:
    """Judge the name of an environment variable that is not empty (IsRelaxedEnvVarName)."""
    if all(" " <= character <= "~" and character != "=" for character in value):
        return []
    return ["a valid environment variable name must consist only of printable ASCII characters other than '='"]


def config_map_key_flaws(value: str) -> list[str]:
    """Judge a key of a config map (IsConfigMapKey)."""
    rule = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
    flaws = _length_flaws(value, _LONGEST_SUBDOMAIN)
    flaws += _form_flaws(value, _CONFIG_MAP_KEY, rule, "key.name", "KEY_NAME", "key-name")
    if value in {".", ".."}:
        flaws.append(f"must not be '{value}'")
    elif value.startswith(".."):
        flaws.append("must not start with '..'")
    return flaws


def header_flaws(value: str) -> list[str]:
    """Judge the name of an HTTP header (IsHTTPHeaderName)."""
    rule = "a valid HTTP header must consist of alphanumeric characters or '-'"
    return _form_flaws(value, _HEADER, rule, "X-Header-Name")


def ip_flaws(value: str) -> list[str]:
    """Judge an IP address (IsValidIPForLegacyField, strict since Kubernetes 1.36)."""
    plain = value if ":" in value else re.sub(r"(^|\.)0+(?=[0-9])", r"\1", value)
    try:
        address = None if "%" in value else ipaddress.ip_address(plain)
    except ValueError:
        address = None
    if address is None:
        return ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]
    flaws = ["must not have leading 0s"] if plain != value else []
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        flaws.append("must not be an IPv4-mapped IPv6 address")
    return flaws


def word_flaws(value: str) -> list[str]:
    """Judge an option of a resolver; the API server takes any text, which would be a line of its own in a file."""
    is_word = all(character.isprintable() and not character.isspace() for character in value)
    return [] if is_word else ["must not contain white space or control characters"]


def without_backsteps_flaws(path: str) -> list[str]:
    """Judge a path that must not leave its folder (validatePathNoBacksteps)."""
    return ["must not contain '..'"] if ".." in path.split("/") else []


def relative_path_flaws(path: str) -> list[str]:
    """Judge a path below a volume's folder (validateLocalDescendingPath)."""
    flaws = ["must be a relative path"] if path.startswith("/") else []
    return flaws + without_backsteps_flaws(path)


def local_path_flaws(path: str) -> list[str]:
    """Judge the path of a file in a volume; `..data` is the volume's own (ValidateLocalNonReservedPath)."""
    flaws = relative_path_flaws(path)
    if path.startswith("..") and not path.startswith("../"):
        flaws.append("must not start with '..'")
    return flaws


def positive_flaws(value: int) -> list[str]:
    """Judge a number of seconds that 0 cannot be."""
    return [] if value > 0 else ["must be greater than 0"]


def mode_flaws(mode: int) -> list[str]:
    """Judge the permissions of a file."""
    return [] if 0 <= mode <= _LAST_MODE else ["must be a number between 0 and 0777 (octal), both inclusive"]


def image_flaws(image: str) -> list[str]:
    """Judge the name of an image."""
    return [] if image == image.strip() else ["must not have leading or trailing whitespace"]


def _length_flaws(value: str, limit: int, unit: str = "characters") -> list[str]:
    return [f"must be no more than {limit} {unit}"] if len(value.encode()) > limit else []


def _form_flaws(value: str, pattern: str, rule: str, *examples: str) -> list[str]:
    return [] if re.fullmatch(pattern, value) else [rule + _examples(pattern, *examples)]


def _examples(pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f" (e.g. {shown}regex used for validation is '{pattern}')"
