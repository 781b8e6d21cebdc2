"""What the output of a job is as an answer to a request: its status, its body, and the tokens that it took."""

import pytest
from msgspec import Raw

from orchestrator.core.batch_api.token_usage import TokenUsage
from orchestrator.formats.output.openai_lines import RequestAnswer, answer_line, answer_of
from orchestrator.formats.output.outcome_lines import ResultLine

CHAT = b"""{"object":"chat.completion","usage":{"prompt_tokens":7,"completion_tokens":5,"total_tokens":12,
"prompt_tokens_details":{"cached_tokens":3},"completion_tokens_details":{"reasoning_tokens":2}}}"""
RESPONSE = b"""{"object":"response","error":null,"usage":{"input_tokens":7,"output_tokens":5,"total_tokens":12,
"input_tokens_details":{"cached_tokens":3},"output_tokens_details":{"reasoning_tokens":2}}}"""
TAKEN = TokenUsage(input=7, cached=3, output=5, reasoning=2)


def line_of(output: bytes) -> ResultLine:
    return ResultLine(
        custom_id="a", job_id="j", output=Raw(output), attempts=1, paid_at_most=1, delay_ms=None, execution_ms=None
    )


@pytest.mark.parametrize(
    ("body", "status", "usage"),
    [
        (CHAT, 200, TAKEN),
        (RESPONSE, 200, TAKEN),
        (b'{"usage":{"prompt_tokens":4,"total_tokens":4}}', 200, TokenUsage(input=4)),
        (b'{"usage":{"prompt_tokens":4,"prompt_tokens_details":null}}', 200, TokenUsage(input=4)),
        (b'{"usage":null}', 200, None),
        (b'{"usage":7}', 200, None),
        (b'{"usage":{"prompt_tokens":-1}}', 200, None),
        (b'{"usage":{"prompt_tokens":1e400}}', 200, None),
        (b'{"usage":{"prompt_tokens":9007199254740993}}', 200, None),
        (b'{"object":7,"usage":{"prompt_tokens":4}}', 200, None),
        (b'{"object":"error","code":404,"message":"no"}', 404, None),
        (b'{"object":"error","code":"gone"}', 500, None),
        (b'{"error":{"code":429,"message":"slow down"}}', 429, None),
        (b'{"error":{"code":[]}}', 200, None),
        (b'{"error":"no"}', 500, None),
    ],
)
def test_an_answer_is_read_alone_or_in_an_array(body: bytes, status: int, usage: TokenUsage | None) -> None:
    for output in (body, b"[" + body + b"]"):
        assert answer_of(line_of(output)) == RequestAnswer(status, body, usage)


@pytest.mark.parametrize("output", [b"7", b"[]", b"[{},{}]", b"[7]", b'"text"', b"null"])
def test_what_is_no_answer_is_a_body_all_the_same(output: bytes) -> None:
    line = line_of(output)
    answer = answer_of(line)
    assert answer == RequestAnswer(200, None, None)
    assert b'"status_code":200,"request_id":"j","body":' + output + b"}" in answer_line(line, answer)
