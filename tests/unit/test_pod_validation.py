"""Faulty pods and the API server's words for each fault: the table is pod_faults.yaml."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from api.errors import aggregate, forbidden, required
from api.validation.pod import validate_pod
from tests.unit.pod_manifests import ABSENT, defaulted

TABLE = yaml.safe_load(Path(__file__).with_name("pod_faults.yaml").read_text())


@pytest.mark.parametrize(
    "fault",
    [fault for faults in TABLE["faults"].values() for fault in faults],
    ids=lambda fault: str(fault["changes"])[:80],
)
def test_each_fault_has_the_message_of_the_api_server(fault: dict[str, Any]) -> None:
    changes = {path: ABSENT if value == "<absent>" else value for path, value in fault["changes"].items()}

    errors = [str(error) for error in validate_pod(defaulted(changes))]

    assert [_with_rules(text) for text in fault["errors"]] == errors


def _with_rules(text: str) -> str:
    for name, rule in TABLE["rules"].items():
        text = text.replace(f"<{name}>", rule)
    return text


def test_annotations_have_a_limit_together() -> None:
    errors = validate_pod(defaulted({"metadata.annotations": {"a": "b" * 2**18}}))

    assert [str(error) for error in errors] == ["metadata.annotations: Too long: may not be more than 262144 bytes"]


def test_several_errors_are_one_text_each_once() -> None:
    first, second = required("spec.a"), forbidden("spec.b", "not here")

    assert aggregate([first, first]) == "spec.a: Required value"
    assert aggregate([first, second, first]) == "[spec.a: Required value, spec.b: Forbidden: not here]"
