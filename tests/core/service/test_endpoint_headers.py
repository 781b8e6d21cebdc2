"""The headers of endpoints at URLs: what is secret comes from variables, and is shown nowhere."""

import pytest

from orchestrator.core.service.endpoint_headers import NO_HEADERS, read_headers
from orchestrator.errors import UsageError

ENVIRON = {"VLLM_KEY": " sk-secret-1 ", "WHOLE": "Basic c2VjcmV0", "LINES": "a\nb"}


def test_what_is_given_is_sent_and_a_key_alone_is_a_bearer_token() -> None:
    found = read_headers(
        {
            "Authorization": "env:VLLM_KEY",
            "X-Api-Key": "env:VLLM_KEY",
            "X-Team": "red",
            "Cookie": "session=1 env:WHOLE",
        },
        ENVIRON,
    )
    assert found.values == {
        "Authorization": "Bearer sk-secret-1",
        "X-Api-Key": "sk-secret-1",
        "X-Team": "red",
        "Cookie": "session=1 Basic c2VjcmV0",
    }
    assert set(found.secrets) == {"sk-secret-1", "Basic c2VjcmV0"}
    assert found.variables == {"VLLM_KEY", "WHOLE"}
    assert "secret" not in repr(found)
    found.check("https://host")


@pytest.mark.parametrize(
    ("text", "value"),
    [("Token env:VLLM_KEY", "Token sk-secret-1"), ("env:WHOLE", "Basic c2VjcmV0")],
)
def test_an_authorization_with_a_scheme_keeps_it(text: str, value: str) -> None:
    assert read_headers({"authorization": text}, ENVIRON).values == {"authorization": value}


def test_a_variable_that_is_not_set_is_told_once_the_endpoint_is_used() -> None:
    found = read_headers({"X-Key": "env:NOWHERE", "X-Team": "red"}, ENVIRON)
    assert found.values == {"X-Team": "red"}
    with pytest.raises(UsageError, match="the headers of https://host need the variable NOWHERE"):
        found.check("https://host")
    NO_HEADERS.check("https://host")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"Authorization": "Bearer sk-secret"}, "Authorization: write env:NAME"),
        ({"x-api-key": "sk-secret"}, "x-api-key: write env:NAME"),
        ({"X-Team": "my env:VLLM_KEY secret"}, "X-Team: write env:NAME"),
        ({"X-N": 7}, "X-N: write env:NAME"),
        ({"Content-Length": "7"}, "Content-Length cannot be set"),
        ({"X-Team": "a", "x-team": "b"}, "x-team stands there twice"),
        ({"X Team": "secret"}, '"X Team" is no name of a header'),
        ({"X-Team": ""}, "the value of X-Team is empty"),
        ({"X-Team": "secret\r\nX: y"}, "the value of X-Team is empty"),
        ({"X-Lines": "env:LINES"}, "the value of X-Lines is empty"),
    ],
)
def test_what_fits_in_no_header_or_no_file_is_refused_without_its_value(given: dict[str, object], told: str) -> None:
    with pytest.raises(ValueError, match=told) as refused:
        read_headers(given, ENVIRON)
    assert "secret" not in str(refused.value)
