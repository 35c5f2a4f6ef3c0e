"""Errors of the built-in runtime as kubelet shows those of a remote one."""

import pytest

from harness.cri.service import ImageNotFoundError, NotFoundError, RuntimeServiceError
from harness.kubelet.assembly import with_rpc_errors


class Service:
    name = "service"

    def refuse(self, error: Exception) -> None:
        raise error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (RuntimeServiceError("no"), "rpc error: code = Unknown desc = no"),
        (NotFoundError("none"), "rpc error: code = NotFound desc = none"),
        (ImageNotFoundError("none"), "rpc error: code = NotFound desc = none"),
        (RuntimeServiceError("rpc error: code = Canceled desc = no"), "rpc error: code = Canceled desc = no"),
        (TimeoutError("late"), "late"),
    ],
)
def test_errors_of_a_runtime_keep_their_kind_and_get_a_code_once(error: Exception, words: str) -> None:
    service = with_rpc_errors(Service())

    with pytest.raises(type(error)) as raised:
        service.refuse(error)

    assert (type(raised.value), str(raised.value), service.name) == (type(error), words, "service")
