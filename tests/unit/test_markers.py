"""Markers that leave a test out of `make test`, or give it more time, have a reason."""

import pytest

from tests.markers import apply_markers


@pytest.mark.parametrize(
    ("mark", "message"),
    [
        (pytest.mark.slow, "is slow without a reason"),
        (pytest.mark.slow(8), "is slow without a reason"),
        (pytest.mark.mostly_slow(8), "is mostly slow without a number of rows and a reason"),
        (pytest.mark.time_limit(600), "has a time limit without seconds and a reason"),
        (pytest.mark.needs("an unknown package"), "needs 'an unknown package', which tests/markers.py does not name"),
    ],
)
def test_marker_without_its_reason_is_refused(
    mark: pytest.MarkDecorator, message: str, request: pytest.FixtureRequest
) -> None:
    request.node.add_marker(mark)

    with pytest.raises(pytest.UsageError, match=f"{request.node.nodeid.rpartition('[')[0]}.*{message}"):
        apply_markers(request.node)


def test_time_limit_with_a_reason_is_the_limit_of_the_test(request: pytest.FixtureRequest) -> None:
    request.node.add_marker(pytest.mark.time_limit(600, "it boots a machine"))

    apply_markers(request.node)

    assert request.node.get_closest_marker("timeout").args == (600,)
