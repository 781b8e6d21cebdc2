"""Rows of runs whose jobs are resumable: what they are given stands in their inputs, so it must not be there."""

import pytest

from orchestrator.formats.input.jsonl import BODY_BYTES_MAX
from tests.formats.input.test_jsonl import problem, row


@pytest.mark.parametrize("line", ['{"resume":1}', '{"input":{"a":1,"resume":null}}', '{"custom_id":"a","resume":{}}'])
def test_a_resumable_job_is_given_what_it_goes_on_from_where_its_row_has_nothing(line: str) -> None:
    assert problem(line, is_resumable=True).startswith('its input has a "resume"; under this key a resumable job is')
    assert b"resume" in row(line).input


def test_what_a_resumable_job_is_given_has_to_fit_into_its_request() -> None:
    line = b'{"a":"%b"}' % (b"x" * (BODY_BYTES_MAX - 1_000))
    row(line)
    assert "over the limit" in problem(line, is_resumable=True)
