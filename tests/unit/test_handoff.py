"""The packets between launcher and fork server, byte by byte."""

import sys

import pytest

from launch.server.protocol import (
    HandoffError,
    Request,
    decode_environment,
    decode_exit,
    decode_request,
    decode_signal,
    encode_environment,
    encode_exit,
    encode_request,
)

REQUEST = Request(
    build_id=bytes(range(16)),
    umask=0o027,
    closed=(0, 2),
    blocked=1 << 63 | 1,
    ignored=1 << 12,
    plugin="host-local",
    environment=b"A=b\0C=\xff=d\0",
)


def number(value: int, size: int) -> bytes:
    return value.to_bytes(size, sys.byteorder)


def test_request_as_documented() -> None:
    expected = (
        b"CNIH\x02\0\0\0"
        + bytes(range(16))
        + number(0o027, 4)
        + number(0b101, 4)
        + number(1 << 63 | 1, 8)
        + number(1 << 12, 8)
        + b"host-local\0A=b\0C=\xff=d\0"
    )

    assert encode_request(REQUEST) == expected
    assert decode_request(expected) == REQUEST


def test_name_that_is_no_text() -> None:
    request = REQUEST._replace(plugin="\udcff")

    assert decode_request(encode_request(request)) == request


@pytest.mark.parametrize(
    "packet",
    [
        b"",
        encode_request(REQUEST)[:57],
        b"CNIH\x03" + encode_request(REQUEST)[5:],
        b"CNIH\x02\0\0\x01" + encode_request(REQUEST)[8:],
        encode_request(REQUEST)[:28] + number(8, 4) + encode_request(REQUEST)[32:],
    ],
    ids=["empty", "cut off in the name", "later version", "padding in use", "unknown flag"],
)
def test_other_packets_are_no_requests(packet: bytes) -> None:
    with pytest.raises(HandoffError):
        decode_request(packet)


def test_environment() -> None:
    environ = {b"A": b"b", b"EMPTY": b"", b"C": b"\xff=d\n"}

    assert encode_environment(environ) == b"A=b\0EMPTY=\0C=\xff=d\n\0"
    assert decode_environment(encode_environment(environ)) == environ


def test_environment_as_pythons_own_reading_of_it() -> None:
    assert decode_environment(b"A=first\0A=second\0no equals sign\0=nameless\0\0") == {b"A": b"first", b"": b"nameless"}


@pytest.mark.parametrize("code", [0, 1, 255, -9, 2**31 - 1, -(2**31)])
def test_exit_code(code: int) -> None:
    assert encode_exit(code) == b"X" + code.to_bytes(4, sys.byteorder, signed=True)
    assert decode_exit(encode_exit(code)) == code


@pytest.mark.parametrize("packet", [b"", b"X", b"X\0\0\0", b"X\0\0\0\0\0", b"Y\0\0\0\0"])
def test_other_packets_are_no_exit_codes(packet: bytes) -> None:
    with pytest.raises(HandoffError):
        decode_exit(packet)


def test_signal() -> None:
    assert decode_signal(b"T\x0f") == 15


@pytest.mark.parametrize("packet", [b"", b"T", b"T\x0f\0", b"G", b"X\x0f"])
def test_other_packets_are_no_signals(packet: bytes) -> None:
    with pytest.raises(HandoffError):
        decode_signal(packet)
