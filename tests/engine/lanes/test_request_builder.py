"""What a request says."""

import msgspec
import pytest

from orchestrator.core.jobs.job import Job
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.service.row_variables import OwnKeys, RefusedVariables
from orchestrator.engine.lanes.request_builder import RequestBuilder
from orchestrator.ledger import Claim
from orchestrator.ledger.jobs.payloads import Payload
from orchestrator.settings.run_settings import RunSettings
from tests.engine.rows import variables

SECRET = 'a/b+c"d\\e=='
ENVIRON = {"S3_ID": "AKIA123", "S3_SECRET": SECRET}
ALLOWED = RunSettings(allow_env=("S3_*",))


@pytest.fixture
def claim() -> Claim:
    config = b'{"accessId":"env:S3_ID","accessSecret":"env:S3_SECRET","bucketName":"b"}'
    job = Job(id=1, run=1, endpoint=1, state=State.SUBMITTING, submission=1, attempt=1)
    return Claim(job, Payload(input=b'{"n":1}', policy=None, s3_config=config))


def test_a_body_holds_the_secrets_that_its_references_name(claim: Claim) -> None:
    body = RequestBuilder(lambda: ALLOWED, variables(ENVIRON), None).body(claim)
    assert msgspec.json.decode(body)["s3Config"] == {
        "accessId": "AKIA123",
        "accessSecret": SECRET,
        "bucketName": "b",
    }


def test_without_the_variable_there_is_no_body(claim: Claim) -> None:
    with pytest.raises(ValueError, match="S3_ID and S3_SECRET"):
        RequestBuilder(lambda: ALLOWED, variables({}), None).body(claim)


def test_what_nobody_has_allowed_is_not_sent_nor_any_key_of_ours_whoever_has(claim: Claim) -> None:
    with pytest.raises(RefusedVariables, match="refers to S3_ID and S3_SECRET, which no row may have unasked"):
        RequestBuilder(RunSettings, variables(ENVIRON), None).body(claim)  # as of a ledger from before
    with pytest.raises(RefusedVariables, match="refers to S3_SECRET, a key of this program's own"):
        RequestBuilder(lambda: ALLOWED, variables(ENVIRON, OwnKeys(values=frozenset({SECRET}))), None).body(claim)
    assert not RequestBuilder(RunSettings, variables(ENVIRON), None).is_set("S3_ID")
    assert RequestBuilder(lambda: ALLOWED, variables(ENVIRON), None).is_set("S3_ID")
