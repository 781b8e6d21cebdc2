"""Rows of runs whose jobs go to `/openai/*`: only some inputs can, and nothing goes with them."""

import pytest

from orchestrator.core.lanes.via import Via
from orchestrator.core.service.row_variables import RowVariables
from orchestrator.core.text.durations import Policy
from orchestrator.formats.input.jsonl import RowReader
from orchestrator.formats.input.rows import Row, RowProblem
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
    assert problem(line, vias=(Via.OPENAI,)).startswith(told)


@pytest.mark.parametrize("line", [INPUT, f'{{"input":{INPUT},"policy":{{"executionTimeout":60000}},"priority":1}}'])
def test_what_can_go_there_goes_as_it_is(line: str) -> None:
    assert row(line, vias=(Via.OPENAI,)).input == INPUT.encode()


def test_what_goes_to_a_server_at_a_url_is_any_object_and_may_be_long() -> None:
    assert row("{}", vias=(Via.HTTP,)).input == b"{}"
    long = '{"prompt":"%s"}' % ("a" * 250)
    assert row(long, vias=(Via.HTTP,), body_bytes_max=100).input == long.encode()
    assert "over the limit of 100" in problem(long, body_bytes_max=100)
    assert "over the limit of 300" in problem(long.replace("a", "aa"), vias=(Via.HTTP,), body_bytes_max=100)


@pytest.mark.parametrize("more", ['"policy":{"ttl":60000}', '"s3Config":{"bucketName":"b"}'])
def test_what_only_the_queue_knows_goes_to_no_server(more: str) -> None:
    told = "s3Config, ttl and lowPriority are for jobs in the service's queue, and <setting via=http> goes past it"
    assert problem(f'{{"input":{{"n":1}},{more}}}', vias=(Via.HTTP,)) == told


def test_a_request_of_a_batch_file_knows_its_own_way() -> None:
    line = b'{"custom_id":"a","method":"POST","url":"/v1/completions","body":{"stream":true}}'

    def request(*vias: Via) -> Row | RowProblem:
        return RowReader(RowVariables({}, ()), Policy(), 0, 1_000, vias=vias).read_request(1, line)

    told = "requests of an OpenAI Batch file go by <setting via=openai>"
    assert request(Via.HTTP) == RowProblem(line=1, text=told)
    told = "a job in the queue has no stream; leave stream out of the body"
    assert request(Via.QUEUE) == RowProblem(line=1, text=told)
    assert request(Via.OPENAI, Via.QUEUE) == RowProblem(line=1, text=told), "it may go to either"
    asked = request(Via.OPENAI)
    assert isinstance(asked, Row)
    assert asked.input == b'{"openai_route":"/v1/completions","openai_input":{"stream":true}}'


def test_a_row_of_a_pool_fits_every_lane_of_its_members() -> None:
    beside_server, beside_model = (Via.QUEUE, Via.HTTP), (Via.SYNC, Via.OPENAI)
    assert row('{"n":1}', vias=beside_server).input == b'{"n":1}'
    assert row(INPUT, vias=beside_model).input == INPUT.encode()
    assert problem('{"n":1}', vias=beside_model).startswith('only an input of "openai_route"')
    assert problem("{}", vias=beside_server) == "the input is empty; the service would drop the job"
    long = '{"prompt":"%s"}' % ("a" * 150)
    assert "over the limit of 100" in problem(long, vias=beside_server, body_bytes_max=100), "/run takes the least"
    assert "over the limit of 100" not in problem(long, vias=beside_model, body_bytes_max=100)


def test_what_a_row_wishes_of_the_queue_holds_where_there_is_one_but_its_bucket_is_for_all() -> None:
    assert row('{"input":{"n":1},"policy":{"ttl":60000}}', vias=(Via.QUEUE, Via.HTTP)).policy == b'{"ttl":60000}'
    assert problem('{"input":{"n":1},"s3Config":{"bucketName":"b"}}', vias=(Via.QUEUE, Via.HTTP)) == (
        "s3Config is for workers that take jobs from the service's queue, and a member of the pool has"
        " <setting via=http>, which goes past it"
    )
