"""JSON that plugins print is read as Go's encoding/json reads it: runtimes, and plugins that delegate, are Go programs.

The rules are in the documentation of that package: json.Unmarshal on invalid UTF-8, surrogate pairs and duplicate keys.
"""

import pytest

from skel.strict_json import decode_output

TAKEN: list[tuple[bytes, object]] = [
    (b'{"a": 1}\n', {"a": 1}),
    (b'{"a": 1, "a": 2}', {"a": 2}),
    (b'{"a": {"b": 1}, "a": {"b": 2}}', {"a": {"b": 2}}),
    (b'{"a": "p\xe4d"}', {"a": "p�d"}),
    (b'{"p\xe4d": 1}', {"p�d": 1}),
    (b'{"a": ["\\ud800", "\\ud83d\\ude00"]}', {"a": ["�", "😀"]}),
    (b'{"\\udc00": 1}', {"�": 1}),
]

REFUSED: list[tuple[bytes, str]] = [
    (b'\xef\xbb\xbf{"a": 1}', "a byte order mark of UTF-8"),
    ('{"a": 1}'.encode("utf-16"), "a byte order mark of UTF-16"),
    (b"\xfe\xff" + '{"a": 1}'.encode("utf-16-be"), "a byte order mark of UTF-16"),
    ('{"a": 1}'.encode("utf-16-le"), "Expecting property name"),
    ('{"a": 1}'.encode("utf-32"), "a byte order mark of UTF-16"),
    (b'{"a": NaN}', "NaN is not a number"),
    (b'{"a": -Infinity}', "-Infinity is not a number"),
    (b'{"a": 1e999}', "1e999 is beyond"),
    (b'{"a": 1} {"a": 1}', "Extra data"),
    (b'{"a": 1}\x00', "Extra data"),
    (b'{"a": 1,}', "Expecting property name|Illegal trailing comma"),  # before Python 3.13, and since
    (b'{"a": "\n"}', "control character"),
    (b'\xa0{"a": 1}', "Expecting value"),
    (b"", "Expecting value"),
]


@pytest.mark.parametrize(("output", "expected"), TAKEN)
def test_output_that_go_accepts_is_accepted(output: bytes, expected: object) -> None:
    assert expected == decode_output(output)


@pytest.mark.parametrize(("output", "complaint"), REFUSED)
def test_output_that_go_refuses_is_refused(output: bytes, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        decode_output(output)
