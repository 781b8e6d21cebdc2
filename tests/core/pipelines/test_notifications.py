"""What people are told: the messages, their signature, and when they are sent again."""

import base64
import hashlib
import hmac
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.pipelines.due_fires import COUNTED_MAX, Gap, GapKind
from orchestrator.core.pipelines.flow_lifecycle import FlowEvent
from orchestrator.core.pipelines.notifications import (
    OF_EVENT,
    PAUSE_US_MAX,
    PAUSE_US_MIN,
    TRIED_FOR_US,
    TRIES_MAX,
    WHY_CHARS_MAX,
    StageCounts,
    flow_message,
    headers,
    message_id,
    missed_message,
    next_try,
    pause_message,
    signing_key,
)
from orchestrator.core.pipelines.pipeline import News
from orchestrator.units import HOUR_US, SECOND_US

AT = 1_767_225_600_000_000
FLOW = "p@20260101T000000Z"
STAGES = (
    StageCounts(stage="caption", run=f"{FLOW}/caption", jobs={"succeeded": 7, "failed": 2, "queued": 1}),
    StageCounts(stage="embed", run=f"{FLOW}/embed", jobs={"succeeded": 3, "cancelled": 1, "failed": 0}),
)


def step(name: str, of: str) -> list[str]:
    """A suggestion as it is stored."""
    return [name, of, "", ""]


def told(news: News, why: str = "") -> dict[str, object]:
    body = flow_message(news, pipeline="p", flow=FLOW, fire_us=AT, why=why, stages=STAGES, at=AT + SECOND_US)
    decoded: dict[str, object] = json.loads(body)
    return decoded


def test_a_message_names_the_flow_and_counts_its_rows() -> None:
    assert told(News.DONE) == {
        "type": "flow.done",
        "timestamp": "2026-01-01T00:00:01Z",
        "data": {
            "pipeline": "p",
            "flow": FLOW,
            "fire": "2026-01-01T00:00:00Z",
            "stages": [
                {
                    "stage": "caption",
                    "run": f"{FLOW}/caption",
                    "rows": 10,
                    "succeeded": 7,
                    "failed": 2,
                    "cancelled": 0,
                },
                {"stage": "embed", "run": f"{FLOW}/embed", "rows": 4, "succeeded": 3, "failed": 0, "cancelled": 1},
            ],
            "commands": [step("show-flow", FLOW)],
        },
    }


@pytest.mark.parametrize(
    ("news", "further"),
    [
        (News.PARTIAL, [step("retry-run", f"{FLOW}/caption")]),
        (News.FAILED, [step("retry-run", f"{FLOW}/caption")]),
        (News.ON_HOLD, [step("continue-flow", FLOW)]),
        (News.LATE, []),
    ],
)
def test_a_message_says_how_to_go_on(news: News, further: list[list[str]]) -> None:
    data = told(news, "because\nline 3: {secret}")["data"]
    assert isinstance(data, dict)
    assert data["commands"] == [step("show-flow", FLOW), *further]
    assert data["why"] == "because"  # further lines say what is wrong with which row


def test_a_reason_is_not_endless() -> None:
    data = told(News.FAILED, "x" * 9_999)["data"]
    assert isinstance(data, dict)
    assert data["why"] == "x" * WHY_CHARS_MAX


@pytest.mark.parametrize(("fires", "why"), [(3, None), (COUNTED_MAX, "there were at least 10,000")])
def test_fires_that_were_missed_come_with_the_command_that_makes_up_for_them(fires: int, why: str | None) -> None:
    gap = Gap(GapKind.MISSED, AT, AT + 3 * HOUR_US, AT + HOUR_US, fires)
    body = json.loads(missed_message(pipeline="p", zone="Europe/Berlin", gap=gap, at=AT + 9 * HOUR_US))
    since, until = "2026-01-01T02:00:00+01:00", "2026-01-01T04:00:00+01:00"
    expected = {
        "pipeline": "p",
        "fires": fires,
        "from": since,
        "to": until,
        "commands": [step("show-schedule", "p"), ["backfill", "p", since, until]],
    }
    assert (body["type"], body["timestamp"]) == ("schedule.missed", "2026-01-01T09:00:00Z")
    assert body["data"] == expected | ({"why": why} if why else {})


@pytest.mark.parametrize(("until", "told"), [(None, {}), (AT + HOUR_US, {"to": "2026-01-01T01:00:00Z"})])
def test_a_pause_comes_with_its_reason_and_its_end(until: int | None, told: dict[str, str]) -> None:
    body = json.loads(pause_message(pipeline="p", why="stocktaking", until_us=until, at=AT))
    assert body["type"] == "schedule.paused"
    commands = [step("continue-schedule", "p")]
    assert body["data"] == {"pipeline": "p", "why": "stocktaking", "commands": commands, **told}


def test_each_end_and_each_hold_is_news_but_that_it_was_cancelled() -> None:
    assert dict(OF_EVENT) == {
        FlowEvent.SUCCEEDED: News.DONE,
        FlowEvent.PARTIAL: News.PARTIAL,
        FlowEvent.FAILED: News.FAILED,
        FlowEvent.ON_HOLD: News.ON_HOLD,
    }


# --- signed


def test_the_signature_is_that_of_the_standard() -> None:
    # the example of the specification's reference libraries
    key = signing_key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    sent = headers("msg_p5jXN8AQM9LWM0D4loKWxJek", at=1_614_265_330 * SECOND_US, body=b'{"test": 2432232314}', key=key)
    assert sent == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_without_a_secret_nothing_is_signed() -> None:
    assert headers("msg_1", at=SECOND_US, body=b"{}", key=None) == {"webhook-id": "msg_1", "webhook-timestamp": "1"}


@given(st.binary(min_size=1), st.binary(max_size=40))
def test_a_receiver_that_has_the_secret_comes_to_the_same_signature(key: bytes, body: bytes) -> None:
    secret = base64.b64encode(key).decode()
    assert signing_key(secret) == signing_key(f" whsec_{secret}\n") == key
    sent = headers("msg_1", at=9 * SECOND_US, body=body, key=key)
    expected = hmac.new(key, b"msg_1.9." + body, hashlib.sha256).digest()
    assert sent["webhook-signature"] == f"v1,{base64.b64encode(expected).decode()}"


@pytest.mark.parametrize("secret", ["hunter2 hunter2", "whsec_", "whsec_äöü", "a"])
def test_what_is_no_secret_of_the_standard_is_refused_and_not_repeated(secret: str) -> None:
    with pytest.raises(ValueError, match="no secret of Standard Webhooks") as refused:
        signing_key(secret)
    assert secret.removeprefix("whsec_") in ("", "a") or secret not in str(refused.value)


def test_a_message_has_the_same_id_each_time_and_no_other_one_has_it() -> None:
    assert message_id(1, AT, FLOW) == message_id(1, AT, FLOW)
    assert message_id(1, AT, FLOW).startswith("msg_")
    assert len({message_id(*each) for each in ((1, AT, FLOW), (2, AT, FLOW), (1, AT + 1, FLOW), (1, AT, "q"))}) == 4


# --- sent again


def test_pauses_grow_up_to_an_hour_and_end_after_a_day() -> None:
    now, pauses = AT, list[int]()
    while (again := next_try(tries=len(pauses) + 1, owed_at=AT, now=now)) is not None:
        pauses.append(again - now)
        now = again
    assert pauses[:4] == [PAUSE_US_MIN * n for n in (1, 2, 4, 8)]
    assert pauses == sorted(pauses)
    assert pauses[-1] == PAUSE_US_MAX
    assert TRIED_FOR_US <= now - AT < TRIED_FOR_US + PAUSE_US_MAX


def test_a_message_that_a_clock_owed_that_was_ahead_is_tried_as_often_as_in_a_day() -> None:
    tries, now = 0, AT
    while (again := next_try(tries=tries + 1, owed_at=AT + 10**18, now=now, wanted_us=1)) is not None:
        tries, now = tries + 1, again
    assert tries == TRIES_MAX
    assert TRIED_FOR_US - 2 * PAUSE_US_MAX < now - AT < TRIED_FOR_US + 2 * PAUSE_US_MAX
    wanted = next_try(tries=1, owed_at=AT + 10**18, now=AT, wanted_us=10**18)
    assert wanted == AT + TRIED_FOR_US


@given(st.integers(1, 10_000))
def test_no_number_of_tries_makes_a_pause_too_long(tries: int) -> None:
    again = next_try(tries=tries, owed_at=AT, now=AT)
    assert again is not None
    assert PAUSE_US_MIN <= again - AT <= PAUSE_US_MAX


def test_how_long_a_receiver_wants_nothing_is_kept_but_not_beyond_a_day() -> None:
    def pause(wanted_s: int, *, now: int = AT) -> int:
        again = next_try(tries=1, owed_at=AT, now=now, wanted_us=wanted_s * SECOND_US)
        assert again is not None
        return again - now

    assert pause(1) == PAUSE_US_MIN, "no sooner than it would be anyway"
    assert pause(900) == 900 * SECOND_US
    assert pause(10**9) == TRIED_FOR_US
    assert pause(10**9, now=AT + TRIED_FOR_US - HOUR_US) == HOUR_US
