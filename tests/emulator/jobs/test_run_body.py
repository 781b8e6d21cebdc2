import pytest

from orchestrator.emulator.contract.answers import ServiceRefusal
from orchestrator.emulator.jobs.run_body import parse_submission
from orchestrator.units import SECOND_US


def test_the_input_is_kept_byte_for_byte() -> None:
    raw = b'{ "a" : 1.50, "\xc3\xa9":[ ] }'
    assert parse_submission(b'{"input": ' + raw + b' , "unknown": 1}').input == raw


def test_the_policys_defaults_are_the_contracts() -> None:
    submission = parse_submission(b'{"input":{}}')
    assert (submission.execution_timeout_us, submission.ttl_us) == (None, 86_400 * SECOND_US), "the endpoint knows"
    assert (submission.webhook, submission.s3_config) == (None, None)


def test_everything_that_may_be_given_is_taken() -> None:
    submission = parse_submission(
        b'{"input":{"n":1},"webhook":"https://h/x","s3Config":{"bucketName":"b"},'
        b'"policy":{"executionTimeout":5000,"ttl":10000,"lowPriority":true}}'
    )
    assert (submission.execution_timeout_us, submission.ttl_us) == (5 * SECOND_US, 10 * SECOND_US)
    assert (submission.webhook, submission.s3_config) == ("https://h/x", b'{"bucketName":"b"}')


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b"{}",
        b'{"input":[1]}',
        b'{"input":"x"}',
        b'{"input":null}',
        b'{"input":{"a":NaN}}',
        b'{"input":{"a":"\xff"}}',
        b'{"input":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_001,
        b'{"input":{},"webhook":7}',
        b'{"input":{},"webhook":"ftp://h/"}',
        b'{"input":{},"s3Config":[]}',
        b'{"input":{},"webhook":"https://"}',
        b'{"input":{},"webhook":"http://:80/x"}',
        b'{"input":{},"webhook":"http://[x"}',
        b'{"input":{},"s3Config":{"accessId":5}}',
        b'{"input":{},"s3Config":{"endpointUrl":{}}}',
        b'{"input":{},"policy":[]}',
        b'{"input":{},"policy":{"ttl":9999}}',
        b'{"input":{},"policy":{"ttl":604800001}}',
        b'{"input":{},"policy":{"ttl":"1"}}',
        b'{"input":{},"policy":{"executionTimeout":4999}}',
        b'{"input":{},"policy":{"executionTimeout":604800001}}',
        b'{"input":{},"policy":{"lowPriority":1}}',
    ],
    ids=lambda body: body[:50].decode(errors="replace"),
)
def test_whatever_the_contract_forbids_is_a_400(body: bytes) -> None:
    with pytest.raises(ServiceRefusal) as caught:
        parse_submission(body)
    assert caught.value.status == 400
    assert caught.value.answer().body.startswith(b'{"error":"')
