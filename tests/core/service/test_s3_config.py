"""Object-storage settings: references in, secrets out, and never a value in a message."""

from dataclasses import dataclass

import pytest

from orchestrator.core.service.s3_config import S3Config, UnusableVariables, decode_s3_config, resolve_s3_config

FULL = b'{"accessId":"env:ID","accessSecret":"env:KEY","bucketName":"b","endpointUrl":"https://s3"}'


def test_the_settings_of_a_row_are_decoded_with_their_references() -> None:
    assert decode_s3_config(FULL) == S3Config(
        access_id="env:ID", access_secret="env:KEY", bucket_name="b", endpoint_url="https://s3"
    )


def test_whatever_a_row_does_not_say_stays_unsaid() -> None:
    assert decode_s3_config(b'{"bucketName":null}') == S3Config()
    assert resolve_s3_config(S3Config(bucket_name="b"), {}) == S3Config(bucket_name="b")


@dataclass(frozen=True)
class Bad:
    raw: bytes
    told: str


@pytest.mark.parametrize(
    "bad",
    [
        Bad(b"[]", "s3Config must be an object with the keys accessId, accessSecret, bucketName, endpointUrl"),
        Bad(b"{", "s3Config must be an object"),
        Bad(b'{"access_id":"env:A"}', 'no key "access_id" in s3Config; did you mean accessId?'),
        Bad(b'{"zzz":1}', 'no key "zzz" in s3Config; its keys are accessId'),
        Bad(b'{"bucketName":1}', "s3Config.bucketName must be a string"),
        Bad(b'{"accessId":"AKIA123"}', 'set S3_ACCESS_ID and write "env:S3_ACCESS_ID"'),
        Bad(b'{"accessSecret":"hush"}', 'set S3_ACCESS_SECRET and write "env:S3_ACCESS_SECRET"'),
        Bad(b'{"accessSecret":"env:A B"}', "must name an environment variable"),
    ],
)
def test_what_is_wrong_is_told_to_the_author(bad: Bad) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        decode_s3_config(bad.raw)

    assert bad.told in str(caught.value)


def test_everything_that_is_wrong_is_told_at_once_and_no_value_with_it() -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        decode_s3_config(b'{"accessId":"AKIA-123","accessSecret":"hush-hush","bucket":"x"}')

    text = str(caught.value)
    assert [part in text for part in ("accessId must", "accessSecret must", 'no key "bucket"')] == [True] * 3
    assert "AKIA-123" not in text
    assert "hush-hush" not in text


def test_references_are_resolved_from_the_environment_they_are_given() -> None:
    resolved = resolve_s3_config(decode_s3_config(FULL), {"ID": "AKIA", "KEY": "hush"})

    assert resolved == S3Config(access_id="AKIA", access_secret="hush", bucket_name="b", endpoint_url="https://s3")


def test_no_text_of_the_settings_shows_a_resolved_secret() -> None:
    config = S3Config(access_id="env:ID", access_secret="env:SECRET", bucket_name="b", endpoint_url="https://s3")
    assert repr(config) == "S3Config('env:ID', 'env:SECRET', 'b', 'https://s3')"
    resolved = resolve_s3_config(config, {"ID": "the-id", "SECRET": "the-secret"})
    assert repr(resolved) == "S3Config([hidden], [hidden], 'b', 'https://s3')"
    assert repr(S3Config()) == "S3Config(None, None, None, None)"


def test_what_is_wrong_with_a_variable_is_all_that_can_be_said_where_there_is_no_advice() -> None:
    assert UnusableVariables("S3_ID is not set", ["S3_ID"]).with_advice == "S3_ID is not set"
