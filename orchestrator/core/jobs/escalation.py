"""What another execution gets that the one before had not, by the class of failure that the one before had.

Rules are written by people (see `escalation_text`), as in `timed_out: execution-timeout*2, then endpoint big`: of each
class the first trouble of a job leads to the first step, the second to the second, and what a step gives holds from
then on, also through the troubles after the last. A job remembers what it was given, not the rule: a rule that changes
takes nothing back.

A rule may mean only those troubles whose error has a text in it, as in `failed~"worker was taken away": free`. Such a
rule goes before one for the whole class, and of several the first one counts. What the service itself says of workers
that it has taken away is free without any rule: it tells nothing of the handler.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from orchestrator.core.service.failure_class import FailureClass
from orchestrator.core.text.durations import EXECUTION_TIMEOUT_MS_MAX, Policy, decode_policy, merge_policies
from orchestrator.core.text.wording import folded

TROUBLES: Final = (
    FailureClass.FAILED,
    FailureClass.TIMED_OUT,
    FailureClass.INVALID_OUTPUT,
    FailureClass.LOST,
    FailureClass.EXPIRED,
    FailureClass.UNCERTAIN,
)
"""The classes of trouble after which a job may have another execution."""

EXECUTIONS: Final = frozenset({FailureClass.FAILED, FailureClass.TIMED_OUT, FailureClass.INVALID_OUTPUT})
"""Those that share the attempts of a job."""

UNCHANGED: Final = 100

FREE_MAX: Final = 5
"""So many executions of a job cost it no attempt; it may be the job that ends its workers."""


class EscalationStep(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an execution gets that those before had not."""

    percent: int = UNCHANGED
    """Of the execution timeout until then."""

    timeout_ms: int | None = None
    """An execution timeout instead of that."""

    endpoint: str | None = None
    """Another endpoint of the run's service."""

    templates: tuple[tuple[str, str], ...] = ()
    """Fields of the input, each with the template that makes it anew of the whole input."""

    is_free: bool = False
    """It costs the job no attempt, as long as no more than `FREE_MAX` were."""

    gives_up: bool = False
    """There is no other execution."""


FREE: Final = EscalationStep(is_free=True)


class EscalationRule(msgspec.Struct, frozen=True, kw_only=True):
    """What follows troubles of these classes, one step after the other."""

    troubles: tuple[FailureClass, ...]
    steps: tuple[EscalationStep, ...]
    text: str | None = None
    """What their errors have in them, whether in capital letters of ASCII or small ones; None: whatever they say."""

    def name_for(self, trouble: FailureClass) -> str:
        """By what a job remembers how many of its steps it has taken after such trouble."""
        return trouble.value if self.text is None else f"{trouble}~{folded(self.text)}"

    def means(self, trouble: FailureClass, message: str) -> bool:
        """Whether it is for such trouble, which was told by `message`."""
        return trouble in self.troubles and (self.text is None or folded(self.text) in folded(message))


TAKEN_AWAY: Final = ("worker was taken away", "job timed out after")
"""What the service itself says of a worker that it took away, or lost, while that had a job: of the second it has tried
the job again by itself, and says after how many tries it gave up.
"""

BUILT_IN: Final = tuple(
    EscalationRule(troubles=(FailureClass.FAILED,), text=text, steps=(FREE,)) for text in TAKEN_AWAY
)


class EscalationState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a job was given so far, as it stands with the job."""

    taken: Mapping[str, int] = {}
    """How many steps, by what they are remembered by (`Rule.name_for`)."""

    free: int = 0
    """How many executions have cost it no attempt."""

    percent: int = UNCHANGED
    timeout_ms: int | None = None
    templates: tuple[tuple[str, str], ...] = ()


_escalated: Final = msgspec.json.Decoder(EscalationState)


def endpoints_named(rules: Iterable[EscalationRule]) -> list[str]:
    """The endpoints that rules lead to, each once."""
    named = [step.endpoint for rule in rules for step in rule.steps if step.endpoint is not None]
    return list(dict.fromkeys(named))


def with_ids(rules: Iterable[EscalationRule], ids: Mapping[str, str]) -> tuple[EscalationRule, ...]:
    """The rules of an escalation, with the `ids` of the endpoints that they name."""

    def replaced(rule: EscalationRule) -> EscalationRule:
        steps = (
            msgspec.structs.replace(step, endpoint=ids.get(step.endpoint or "", step.endpoint)) for step in rule.steps
        )
        return msgspec.structs.replace(rule, steps=tuple(steps))

    return tuple(map(replaced, rules))


class NextEscalation(msgspec.Struct, frozen=True):
    """A step that a job takes, and by what it remembers that."""

    step: EscalationStep
    name: str


def next_step(
    rules: Iterable[EscalationRule], trouble: FailureClass, message: str, given: bytes | None
) -> NextEscalation | None:
    """What follows trouble of that class, told by `message`, for a job that was `given` so much; None where it stays
    with that. A rule whose last step is free stays free, as long as that is bounded.
    """
    ordered = sorted((*rules, *BUILT_IN), key=lambda rule: rule.text is None)
    rule = next((rule for rule in ordered if rule.means(trouble, message)), None)
    if rule is None:
        return None
    before, name = escalation_of(given), rule.name_for(trouble)
    taken = before.taken.get(name, 0)
    step = rule.steps[taken] if taken < len(rule.steps) else FREE if rule.steps[-1].is_free else None
    if step is not None and step.is_free and before.free >= FREE_MAX:
        step = msgspec.structs.replace(step, is_free=False)
    return None if step is None or step == EscalationStep() else NextEscalation(step, name)


def with_step(given: bytes | None, taken: NextEscalation) -> bytes:
    """What a job was given once it has taken a step as well."""
    before, step = escalation_of(given), taken.step
    after = EscalationState(
        taken={**before.taken, taken.name: before.taken.get(taken.name, 0) + 1},
        free=before.free + step.is_free,
        percent=step.percent * (UNCHANGED if step.timeout_ms is not None else before.percent) // UNCHANGED,
        timeout_ms=before.timeout_ms if step.timeout_ms is None else step.timeout_ms,
        templates=(*before.templates, *step.templates),
    )
    return msgspec.json.encode(after)


def escalation_of(given: bytes | None) -> EscalationState:
    """What a job was given, as it stands with it."""
    return EscalationState() if given is None else _escalated.decode(given)


def policy_with(policy: Policy, given: bytes | None) -> Policy:
    """The policy of a job that would have `policy` had it not been `given` so much."""
    if given is None:
        return policy
    found = escalation_of(given)
    if found.timeout_ms is None and found.percent == UNCHANGED:
        return policy
    timeout_ms = found.timeout_ms or policy.timeout_ms
    longer_ms = min(timeout_ms * found.percent // UNCHANGED, EXECUTION_TIMEOUT_MS_MAX)
    return msgspec.structs.replace(policy, execution_timeout_ms=longer_ms)


def own_policy(of_run: Policy, own: bytes | None, given: bytes | None) -> Policy:
    """The policy of a job of a run with the policy `of_run`, that was retried with its `own`, and `given` so much."""
    return policy_with(of_run if own is None else merge_policies(of_run, decode_policy(own)), given)


def budget_of(share: int, jobs: int) -> int:
    """How many executions a run of so many jobs may repeat, where `share` (in millionths) of them may be."""
    return -(-share * jobs // 1_000_000)
