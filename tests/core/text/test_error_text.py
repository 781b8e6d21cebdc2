"""What failures say, in one line, and what those of a kind have in common."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.text.error_text import KIND_MAX, READ_MAX, error_key, error_kind, summary_of
from tests.texts import texts

TRACE = """Traceback (most recent call last):
  File "/app/handler.py", line 12, in handler
    return fetch(job)
           ^^^^^^^^^^
requests.exceptions.Timeout: no answer in 30 s
"""
SAID = {
    "  two\n lines ": "two lines",
    TRACE: "requests.exceptions.Timeout: no answer in 30 s",
    f"job failed\n{TRACE}\nDuring handling of it:\n\n{TRACE.replace('30', '31')}": (
        "requests.exceptions.Timeout: no answer in 31 s"
    ),
    "Traceback (most recent call last):\n  cut off": "Traceback (most recent call last): cut off",
    json.dumps({"error_type": "<class 'RuntimeError'>", "error_message": "CUDA", "error_traceback": TRACE}): (
        "RuntimeError: CUDA"
    ),
    json.dumps({"error_type": "<class 'builtins.KeyError'>", "error_message": "'x'"}): "KeyError: 'x'",
    json.dumps({"error_type": "OOM", "error_message": "OOM: no memory"}): "OOM: no memory",
    json.dumps({"error_traceback": TRACE}): "requests.exceptions.Timeout: no answer in 30 s",
    json.dumps({"error": TRACE}): "requests.exceptions.Timeout: no answer in 30 s",
    json.dumps({"type": "Refused"}): "Refused",
    json.dumps({"message": "m"}): "m",
    json.dumps({"else": 1}): '{"else": 1}',
    json.dumps({"error": 1}): '{"error": 1}',
    "{broken": "{broken",
    "": "",
}


@pytest.mark.parametrize("message", SAID)
def test_a_message_is_told_by_its_type_and_its_sentence(message: str) -> None:
    assert summary_of(message) == SAID[message]


KINDS = {
    "out of memory: 12.5 GiB of 80": "out of memory: <number> GiB of <number>",
    "no file /data/a b.png": "no file <path> b.png",
    "in ./x/y.py: bad": "in <path>: bad",
    "key 'lang' of \"x y\" and `z`": "key <quoted> of <quoted> and <quoted>",
    "can't, won't": "can't, won't",
    "at 2026-01-31T08:00:01.5Z and 08:00:02": "at <time> and <time>",
    "worker 5f0c1b1e-6a52-4f5d-9a8f-0123456789ab left": "worker <uuid> left",
    "commit deadbeef1, at 0x7f": "commit <hex>, at <hex>",
    "GET https://api.example/v2/x?y=1: 503": "GET <url> <number>",
    "pod 8x2k-abcdef77z is gone": "pod <id> is gone",
    "rate -1e-5, +3": "rate <number>, <number>",
    "decade facade": "decade facade",
}


@pytest.mark.parametrize("message", KINDS)
def test_what_varies_is_left_out_of_a_kind(message: str) -> None:
    assert error_kind(message) == KINDS[message]


def test_failures_of_a_kind_have_the_same_key() -> None:
    one = error_key("failed", "tried to allocate 2.00 GiB on cuda:0")

    assert one == error_key("failed", "tried to allocate 31.5 GiB on cuda:7")
    assert one != error_key("timed_out", "tried to allocate 2.00 GiB on cuda:0")
    assert one != error_key("failed", "no such file")
    assert error_key("failed", None) == error_key("failed", "") != error_key("failed", "x")


@given(st.sampled_from(["failed", "lost"]), texts(max_size=200))
def test_any_message_has_a_key_of_48_bits(trouble: str, message: str) -> None:
    assert 0 <= error_key(trouble, message) < 2**48


@pytest.mark.parametrize("part", ["a-", "a", "/", "'", '"', "1a", "{", "://", "0x", " ", "12:", TRACE])
def test_a_long_message_is_cut(part: str) -> None:
    assert len(summary_of(part * 100_000)) <= READ_MAX
    assert len(error_kind(part * 100_000)) <= KIND_MAX
