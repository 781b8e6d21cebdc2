"""What people are told of flows and schedules: the messages, how they are signed (HMAC), and when one is sent again,
with which backoff, or given up.

Messages are those of Standard Webhooks (standardwebhooks.com): `webhook-id` is the same each time one is sent, so that
a receiver knows it again, and what is signed is `ID.TIMESTAMP.BODY`. They name, count and give reasons; what was put in
and what came out is in none.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType
from typing import Final

import msgspec

from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.pipelines.due_fires import COUNTED_MAX, Gap
from orchestrator.core.pipelines.flow_lifecycle import FlowEvent
from orchestrator.core.pipelines.pipeline import News
from orchestrator.core.text.local_time import local
from orchestrator.core.text.next_step import NextStep, Suggestion
from orchestrator.units import EPOCH, HOUR_US, SECOND_US

TRIED_FOR_US: Final = 24 * HOUR_US
"""One that nobody took for so long is given up."""

PAUSE_US_MIN: Final = 5 * SECOND_US
PAUSE_US_MAX: Final = HOUR_US
TRIES_MAX: Final = 32
"""So many make a day."""


WHY_CHARS_MAX: Final = 1_000
"""A reason is no longer than this, and no more than a line: further ones say what is wrong with which row."""

PREFIX: Final = "whsec_"
"""How a secret begins, as a rule."""

OF_EVENT: Final[Mapping[FlowEvent, News]] = MappingProxyType(
    {
        FlowEvent.SUCCEEDED: News.DONE,
        FlowEvent.PARTIAL: News.PARTIAL,
        FlowEvent.FAILED: News.FAILED,
        FlowEvent.ON_HOLD: News.ON_HOLD,
    }
)
"""What is told of once that happens to a flow."""


class StageCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of a stage that has begun, by what became of them."""

    stage: str
    run: str
    jobs: Mapping[str, int]
    """By state; zeros may be missing."""


class _Stage(msgspec.Struct, frozen=True, kw_only=True):
    stage: str
    run: str
    rows: int
    succeeded: int
    failed: int
    cancelled: int


class _FlowNews(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    pipeline: str
    flow: str
    fire: str
    why: str = ""
    stages: tuple[_Stage, ...]
    commands: tuple[Suggestion, ...]


class _ScheduleNews(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    pipeline: str
    why: str = ""
    fires: int | None = None
    since: str | None = msgspec.field(default=None, name="from")
    until: str | None = msgspec.field(default=None, name="to")
    commands: tuple[Suggestion, ...]


class _Message(msgspec.Struct, frozen=True, kw_only=True):
    type: str
    timestamp: str
    data: _FlowNews | _ScheduleNews


def flow_message(
    news: News, *, pipeline: str, flow: str, fire_us: int, why: str, stages: Sequence[StageCounts], at: int
) -> bytes:
    """The message that `news` is of a flow: JSON."""
    data = _FlowNews(
        pipeline=pipeline,
        flow=flow,
        fire=iso(fire_us),
        why=_line(why),
        stages=tuple(map(_stage, stages)),
        commands=_next_steps(news, flow, stages),
    )
    return _encoded("flow", news, data, at)


def _stage(counts: StageCounts) -> _Stage:
    jobs = {state: counts.jobs.get(state, 0) for state in State}
    return _Stage(
        stage=counts.stage,
        run=counts.run,
        rows=sum(jobs.values()),
        succeeded=jobs[State.SUCCEEDED],
        failed=jobs[State.FAILED],
        cancelled=jobs[State.CANCELLED],
    )


def _next_steps(news: News, flow: str, stages: Sequence[StageCounts]) -> tuple[Suggestion, ...]:
    """What shows what has happened, and does something about it."""
    show = Suggestion(NextStep.SHOW_FLOW, flow)
    if news is News.ON_HOLD:
        return show, Suggestion(NextStep.CONTINUE_FLOW, flow)
    if news in (News.PARTIAL, News.FAILED):
        failed = (each.run for each in stages if each.jobs.get(State.FAILED))
        return show, *(Suggestion(NextStep.RETRY_RUN, run) for run in failed)
    return (show,)


def missed_message(*, pipeline: str, zone: str, gap: Gap, at: int) -> bytes:
    """The message that fires were missed: JSON."""
    since, until = local(gap.first_us, zone), local(gap.until_us, zone)
    data = _ScheduleNews(
        pipeline=pipeline,
        why=f"there were at least {COUNTED_MAX:,}" if gap.fires >= COUNTED_MAX else "",
        fires=gap.fires,
        since=since,
        until=until,
        commands=(
            Suggestion(NextStep.SHOW_SCHEDULE, pipeline),
            Suggestion(NextStep.BACKFILL, pipeline, since, until),
        ),
    )
    return _encoded("schedule", News.MISSED, data, at)


def pause_message(*, pipeline: str, why: str, until_us: int | None, at: int) -> bytes:
    """The message that a schedule is paused: JSON."""
    data = _ScheduleNews(
        pipeline=pipeline,
        why=_line(why),
        until=None if until_us is None else iso(until_us),
        commands=(Suggestion(NextStep.CONTINUE_SCHEDULE, pipeline),),
    )
    return _encoded("schedule", News.PAUSED, data, at)


def _encoded(of: str, news: News, data: _FlowNews | _ScheduleNews, at: int) -> bytes:
    return msgspec.json.encode(_Message(type=f"{of}.{news}", timestamp=iso(at), data=data))


def _line(why: str) -> str:
    return why.partition("\n")[0][:WHY_CHARS_MAX]


def iso(at_us: int) -> str:
    """A time as messages have it."""
    return f"{EPOCH + timedelta(seconds=at_us // SECOND_US):%Y-%m-%dT%H:%M:%SZ}"


# --- sent, signed, and sent again


def message_id(number: int, owed_at: int, of: str) -> str:
    """What message `number`, of that flow or pipeline, is called: the same each time it is sent, and no other one's,
    not even of another ledger.
    """
    return f"msg_{hashlib.sha256(f'{number} {owed_at} {of}'.encode()).hexdigest()[:32]}"


def signing_key(secret: str) -> bytes:
    """The key that a secret of Standard Webhooks stands for. Raises `ValueError`, which does not repeat it."""
    try:
        key = base64.b64decode(secret.strip().removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not key:
        raise ValueError(f"its value is no secret of Standard Webhooks: {PREFIX} and base64")
    return key


def headers(message: str, *, at: int, body: bytes, key: bytes | None) -> Mapping[str, str]:
    """What is sent with `body` at the time `at`; without a key it is not signed."""
    timestamp = str(at // SECOND_US)
    found = {"webhook-id": message, "webhook-timestamp": timestamp}
    if key is not None:
        signed = hmac.new(key, f"{message}.{timestamp}.".encode() + body, hashlib.sha256).digest()
        found["webhook-signature"] = f"v1,{base64.b64encode(signed).decode()}"
    return found


def next_try(*, tries: int, owed_at: int, now: int, wanted_us: int = 0) -> int | None:
    """When a message that nobody took is sent again, after so many tries; None: it is given up.

    A receiver may have said for how long it takes nothing: `wanted_us`. That is kept, but not for longer than a message
    is tried. How old one is that was owed by a clock that was ahead is not known: its tries are counted.
    """
    if now - owed_at >= TRIED_FOR_US or (owed_at > now and tries > TRIES_MAX):
        return None
    pause_us = PAUSE_US_MAX if tries > PAUSE_US_MAX // PAUSE_US_MIN else PAUSE_US_MIN << (tries - 1)
    return now + max(min(PAUSE_US_MAX, pause_us), min(wanted_us, max(0, min(owed_at, now) + TRIED_FOR_US - now)))
