"""Rows of runs whose jobs go to `/openai/*`: only some inputs can, and nothing goes with them."""

import pytest

from orchestrator.core.lanes.via import Via
from tests.formats.input.test_jsonl import problem, row

INPUT = '{"openai_route":"/v1/completions","openai_input":{"prompt":"a"}}'


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('{"prompt":"a"}', 'only an input of "openai_route" and "openai_input" can go to /openai/*'),
        ('{"openai_route":"/../run","openai_input":{}}', '"/../run" is no path below /openai'),
        (f'{{"input":{INPUT},"policy":{{"ttl":60000}}}}', "s3Config, ttl and lowPriority are for jobs in the service"),
        (f'{{"input":{INPUT},"policy":{{"lowPriority":true}}}}', "s3Config, ttl and lowPriority are for jobs"),
        (f'{{"input":{INPUT},"s3Config":{{"bucketName":"b"}}}}', "s3Config, ttl and lowPriority are for jobs"),
    ],
)
def test_what_cannot_go_there_is_told_before_anything_is_sent(line: str, told: str) -> None:
    assert problem(line, via=Via.OPENAI).startswith(told)


@pytest.mark.parametrize("line", [INPUT, f'{{"input":{INPUT},"policy":{{"executionTimeout":60000}},"priority":1}}'])
def test_what_can_go_there_goes_as_it_is(line: str) -> None:
    assert row(line, via=Via.OPENAI).input == INPUT.encode()
