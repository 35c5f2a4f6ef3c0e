"""The API server's rules for profiles of seccomp and AppArmor, in its words (core/validation/validation.go)."""

from collections.abc import Iterator
from typing import Final

from harness.kubelet.field_errors import FieldError, invalid, not_supported, required
from harness.kubelet.name_rules import flaws_at, relative_path_flaws
from harness.kubelet.v1_container import V1SecurityProfile, V1UserContext

_LOCALHOST: Final = "Localhost"
_TYPES: Final = (_LOCALHOST, "RuntimeDefault", "Unconfined")


def validate_profiles(context: V1UserContext, path: str) -> Iterator[FieldError]:
    """Judge the profiles of a container or pod."""
    seccomp, apparmor = context.seccomp_profile, context.app_armor_profile
    if seccomp is not None:
        yield from _of_profile(seccomp, f"{path}.seccompProfile", "seccompProfile", "seccomp")
        if seccomp.localhost_profile and seccomp.type == _LOCALHOST:
            place = f"{path}.seccompProfile.localhostProfile"
            yield from flaws_at(place, seccomp.localhost_profile, relative_path_flaws)
    if apparmor is not None:
        yield from _of_profile(apparmor, f"{path}.appArmorProfile", "appArmorProfile", "AppArmor")


def _of_profile(profile: V1SecurityProfile, path: str, key: str, module: str) -> Iterator[FieldError]:
    if not profile.type:
        yield required(f"{path}.type", f"type is required when {key} is set")
    elif profile.type not in _TYPES:
        yield not_supported(f"{path}.type", profile.type, _TYPES)
    place = f"{path}.localhostProfile"
    if profile.type == _LOCALHOST and not profile.localhost_profile:
        yield required(place, f"must be set when {module} type is Localhost")
    if profile.type != _LOCALHOST and profile.localhost_profile is not None:
        yield invalid(place, profile.localhost_profile, f"can only be set when {module} type is Localhost")
