"""What is known of a ledger when it is asked what needs a person, and what such a need is."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from orchestrator.core.diagnosis.facts import Facts


class NeedKind(StrEnum):
    """What is the matter, the most urgent first."""

    EXPIRING = "expiring"
    NOBODY = "nobody"
    """Nobody is at work, and there is something to do."""

    FINDING = "finding"
    BREAKER = "breaker"
    ON_HOLD = "held"
    UNSEEN = "unseen"
    """A fire is due, and nobody looks at the schedules."""

    LATE = "late"
    FAILING = "failing"
    MISSED = "missed"
    UNTOLD = "untold"


URGENCY: Final[Mapping[NeedKind, int]] = {kind: rank for rank, kind in enumerate(NeedKind)}


class Subject(StrEnum):
    """What a need is about: where it is shown in full."""

    RUN = "run"
    FLOW = "flow"
    PIPELINE = "pipeline"
    ENGINE = "engine"
    MESSAGES = "messages"


class Cure(StrEnum):
    """What can be asked for that helps."""

    CONTINUE = "continue"
    CHANGE_BRAKES = "brakes"
    RERUN = "rerun"
    MAKE_UP = "backfill"
    RESEND = "resend"


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that needs a person. Times are microseconds UTC."""

    kind: NeedKind
    subject: Subject
    number: int | None = None
    """That of the run, the flow or the pipeline in its ledger."""

    name: str
    more: int = 0
    """How many others have the same cause."""

    cause: str
    evidence: tuple[str, ...] = ()
    since: int | None = None
    """None where that is written nowhere."""

    expires_at: int | None = None
    """When the first result may be gone."""

    advice: str = ""
    """What to do, and where there is a cure: what to do before."""

    cure: Cure | None = None
    """None where nothing that can be asked for here helps."""


class RunPlace(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a run beside its state."""

    number: int
    flow: int | None = None
    flow_name: str = ""
    """The flow of which it carries out a stage."""

    blocked_since: int | None = None


class FlowTrouble(msgspec.Struct, frozen=True, kw_only=True):
    """A flow that is held, late or failed. Times are microseconds UTC."""

    number: int
    name: str
    why: str
    since: int | None = None


class PipelineState(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong with a pipeline. Times are microseconds UTC."""

    number: int
    name: str
    is_scheduled: bool = True
    paused_note: str | None = None
    """Why its schedule is paused; None where it is not."""

    on_hold: Sequence[FlowTrouble] = ()
    late: Sequence[FlowTrouble] = ()
    failing: FlowTrouble | None = None
    """The flow that ended last, where it failed."""

    missed: int = 0
    missed_since: int | None = None
    unseen: str = ""
    """What is due, and nobody has looked; "" where that is not so."""

    unseen_since: int | None = None
    untold: int = 0
    untold_since: int | None = None
    untold_problem: str = ""


class NeedFacts(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known. Times are microseconds UTC."""

    diagnosis: Facts
    places: Mapping[str, RunPlace] = {}
    """By the names of the runs."""

    last_heard: int | None = None
    """When whoever worked last said anything last; None where nobody ever did."""

    pipelines: Sequence[PipelineState] = ()
    owed: int = 0
    """How many messages of single runs could not be sent so far."""

    owed_since: int | None = None
    owed_problem: str = ""
