"""The packets between launcher and server, byte by byte."""

import sys

import pytest

from launch.server.protocol import (
    PIECE_BYTES,
    HandoffError,
    LauncherRequest,
    decode_environment,
    decode_request,
    decode_signal,
    encode_answer,
)
from tests.server_client import encode_environment, encode_request

REQUEST = LauncherRequest(
    build_id=bytes(range(16)),
    umask=0o027,
    plugin="host-local",
    environment=b"A=b\0C=\xff=d\0",
)


def number(value: int) -> bytes:
    return value.to_bytes(4, sys.byteorder, signed=True)


def test_request_as_documented() -> None:
    expected = b"CNIH\x04\0\0\0" + bytes(range(16)) + number(0o027) + b"host-local\0A=b\0C=\xff=d\0"

    assert encode_request(REQUEST) == expected
    assert decode_request(expected) == REQUEST


def test_name_that_is_no_text() -> None:
    request = REQUEST._replace(plugin="\udcff")

    assert decode_request(encode_request(request)) == request


@pytest.mark.parametrize(
    "packet",
    [
        b"",
        encode_request(REQUEST)[:37],
        b"CNIH\x03" + encode_request(REQUEST)[5:],
        b"CNIH\x04\0\0\x01" + encode_request(REQUEST)[8:],
    ],
    ids=["empty", "cut off in the name", "earlier version", "padding in use"],
)
def test_other_packets_are_no_requests(packet: bytes) -> None:
    with pytest.raises(HandoffError):
        decode_request(packet)


def test_environment() -> None:
    environ = {"A": "b", "EMPTY": "", "C": "\udcff=d\n"}

    assert encode_environment(environ) == b"A=b\0EMPTY=\0C=\xff=d\n\0"
    assert decode_environment(encode_environment(environ)) == environ


def test_environment_as_pythons_own_reading_of_it() -> None:
    assert decode_environment(b"A=first\0A=second\0no equals sign\0=nameless\0\0") == {"A": "first", "": "nameless"}


@pytest.mark.parametrize("code", [0, 1, 255, -9, 2**31 - 1, -(2**31)])
def test_answer_has_code_log_and_result(code: int) -> None:
    assert list(encode_answer(code, b"log", b"result")) == [b"X" + number(code) + number(3) + b"logresult"]


def test_long_answer_comes_in_pieces_and_its_end_makes_it_valid() -> None:
    log, result = b"l" * 10, b"r" * (PIECE_BYTES + 5)

    assert list(encode_answer(0, log, result)) == [
        b"E" + log,
        b"O" + result[:PIECE_BYTES],
        b"O" + result[PIECE_BYTES:],
        b"X" + number(0) + number(0),
    ]
    assert len(list(encode_answer(0, b"l" * 5, b"r" * (PIECE_BYTES - 5)))) == 1


def test_signal_packet_is_decoded() -> None:
    assert decode_signal(b"T\x0f") == 15


@pytest.mark.parametrize("packet", [b"", b"T", b"T\x0f\0", b"G", b"X\x0f"])
def test_other_packets_are_no_signals(packet: bytes) -> None:
    with pytest.raises(HandoffError):
        decode_signal(packet)
