"""What a request says, and what of it may come back."""

import json

import msgspec
import pytest

from orchestrator.core.job import Job
from orchestrator.core.lifecycle import State
from orchestrator.ledger import Claim
from orchestrator.ledger.store import Payload
from orchestrator.services.bodies import Bodies
from orchestrator.settings import RunSettings

SECRET = 'a/b+c"d\\e=='
ENVIRON = {"S3_ID": "AKIA123", "S3_SECRET": SECRET}


@pytest.fixture
def claim() -> Claim:
    config = b'{"accessId":"env:S3_ID","accessSecret":"env:S3_SECRET","bucketName":"b"}'
    job = Job(id=1, run=1, endpoint=1, state=State.SUBMITTING, submission=1, attempt=1)
    return Claim(job, Payload(input=b'{"n":1}', policy=None, s3_config=config))


def test_a_body_holds_the_secrets_and_an_answer_that_repeats_it_in_any_spelling_does_not(claim: Claim) -> None:
    bodies = Bodies(RunSettings, ENVIRON, None)
    body = bodies.body(claim).decode()
    assert msgspec.json.decode(body)["s3Config"]["accessSecret"] == SECRET
    for answer in (body, json.dumps({"error": body}), f"plain {SECRET} and AKIA123"):
        hidden = bodies.hide_secrets(claim, answer.encode())
        assert b"AKIA123" not in hidden
        assert b"a/b+c" not in hidden
        assert hidden.count(b"[env:S3_SECRET]") == 1


def test_an_answer_to_a_request_without_secrets_is_left_as_it_is(claim: Claim) -> None:
    plain = msgspec.structs.replace(claim, payload=msgspec.structs.replace(claim.payload, s3_config=None))
    assert Bodies(RunSettings, ENVIRON, None).hide_secrets(plain, b"AKIA123") == b"AKIA123"

    gone = Bodies(RunSettings, {}, None)
    assert gone.hide_secrets(claim, b"AKIA123") == b"AKIA123"
