"""What programs may ask for with a batch."""

from typing import Any

import pytest
from msgspec.structs import replace

from orchestrator.core.batch_api.batch_question import (
    URLS,
    BatchQuestion,
    ExpiresAfter,
    Misfit,
    check_question,
    window_of,
)
from orchestrator.units import DAY_US, HOUR_US, SECOND_US

QUESTION = BatchQuestion(input_file_id="file-1", endpoint=URLS[0], completion_window="24h")


@pytest.mark.parametrize(
    ("text", "us"), [("24h", DAY_US), ("1s", SECOND_US), ("90m", HOUR_US * 3 // 2), ("30d", 30 * DAY_US)]
)
def test_a_window_is_any_duration_up_to_30_days(text: str, us: int) -> None:
    assert window_of(replace(QUESTION, completion_window=text)) == us


@pytest.mark.parametrize(
    "more",
    [
        {},
        *({"endpoint": url} for url in URLS),
        {"metadata": {f"k{n}": "v" for n in range(16)}},
        {"metadata": {"k" * 64: "v" * 512}},
        {"output_expires_after": ExpiresAfter(anchor="created_at", seconds=3_600)},
    ],
)
def test_what_is_meant_so_is_taken(more: dict[str, Any]) -> None:
    check_question(replace(QUESTION, **more))


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"endpoint": "/v1/images"}, "endpoint"),
        ({"endpoint": ""}, "endpoint"),
        ({"completion_window": "soon"}, "completion_window"),
        ({"completion_window": "0s"}, "completion_window"),
        ({"completion_window": "31d"}, "completion_window"),
        ({"metadata": {f"k{n}": "v" for n in range(17)}}, "metadata"),
        ({"metadata": {"k" * 65: "v"}}, "metadata"),
        ({"metadata": {"k": "v" * 513}}, "metadata"),
        ({"output_expires_after": ExpiresAfter(anchor="then", seconds=3_600)}, "output_expires_after"),
        ({"output_expires_after": ExpiresAfter(anchor="created_at", seconds=60)}, "output_expires_after"),
    ],
)
def test_what_cannot_be_meant_names_its_part(more: dict[str, Any], param: str) -> None:
    with pytest.raises(Misfit) as refused:
        check_question(replace(QUESTION, **more))
    assert refused.value.param == param
