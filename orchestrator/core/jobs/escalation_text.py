"""Rules of escalation as people write them, and what their steps give in words."""

import json
import re
from collections.abc import Iterable
from typing import Final

import msgspec

from orchestrator.core.jobs.escalation import EXECUTIONS, TROUBLES, UNCHANGED, EscalationRule, EscalationStep
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.core.text.durations import Policy, format_duration, parse_duration, policy_problems
from orchestrator.core.text.name_match import nearest
from orchestrator.units import MILLISECOND_US

PERCENT_MIN: Final = 101
PERCENT_MAX: Final = 10_000

TEXT_MAX: Final = 200
"""The most characters of the text that an error has in it."""

_ACTIONS: Final = ("execution-timeout", "endpoint", "map", "free", "give-up")

_SPACE: Final = re.compile(r"\s*")
_WORD: Final = re.compile(r"[A-Za-z_-]+")
_CLASSES: Final = re.compile(r"\s*([a-z_]+(?:\s*,\s*[a-z_]+)*)\s*([:~])")
_FACTOR: Final = re.compile(r"\s*\*\s*([0-9]{1,4}(?:\.[0-9]{1,2})?)(?![0-9.])")
_GIVEN: Final = re.compile(r"\s*=\s*([0-9][0-9.]*\s*[a-z]*)")
_ENDPOINT: Final = re.compile(r"\s+([A-Za-z0-9_-]{1,128})")
_FIELD: Final = re.compile(r"\s+([^\s=]+)\s*=\s*")
_PLAIN: Final = re.compile(r"\{\{[^{}\"]*\}\}")
_PART: Final = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|.", re.DOTALL)
_AFTER: Final = re.compile(r"\s*,\s*then\b|\s+then\b|\s+and\s+(?:execution-timeout|endpoint|map|free|give-up)\b")
_END: Final = re.compile(r"\s*:")

_json: Final = json.JSONDecoder()


def parse_rule(text: str) -> EscalationRule:
    """The rule that `text` is. Raises `ValueError`, which names the word that is wrong, and where it stands."""
    return _Reader(text).rule()


def format_rule(rule: EscalationRule) -> str:
    """A text that `parse_rule` makes the same rule of."""
    text = "" if rule.text is None else f"~{json.dumps(rule.text)}"
    return f"{', '.join(rule.troubles)}{text}: {', then '.join(map(_text_of, rule.steps))}"


def _text_of(step: EscalationStep) -> str:
    parts = []
    if step.timeout_ms is not None:
        parts.append(f"execution-timeout={format_duration(step.timeout_ms * MILLISECOND_US).replace(' ', '')}")
    if step.percent != UNCHANGED:
        parts.append(f"execution-timeout*{times_text(step.percent)}")
    if step.endpoint is not None:
        parts.append(f"endpoint {step.endpoint}")
    parts += [f"map {name}={text if _PLAIN.fullmatch(text) else json.dumps(text)}" for name, text in step.templates]
    parts += ["free"] * step.is_free + ["give-up"] * step.gives_up
    return " and ".join(parts)


def times_text(percent: int) -> str:
    return f"{percent // 100}.{percent % 100:02}".rstrip("0").rstrip(".")


class _Reader:
    """Reads one rule from its beginning to its end."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def rule(self) -> EscalationRule:
        found = _CLASSES.match(self._text)
        if found is None:
            raise self._wrong("write CLASS: ACTION, as in timed_out: execution-timeout*2, then endpoint big")
        troubles = tuple(self._trouble(word) for word in re.finditer(r"[a-z_]+", self._text[: found.end(1)]))
        if len(set(troubles)) < len(troubles):
            raise self._wrong("a class stands there twice")
        self._at = found.end()
        text = self._error_text() if found[2] == "~" else None
        steps = [self._step()]
        while self._goes_on():
            if steps[-1].gives_up:
                raise self._wrong("nothing comes after give-up")
            steps.append(self._step())
        return EscalationRule(troubles=troubles, steps=tuple(steps), text=text)

    def _error_text(self) -> str:
        """What errors have in them: a JSON string, and the colon behind it."""
        self._skip()
        begun_at = self._at
        advice = 'write CLASS~"TEXT": ACTION, as in failed~"worker was taken away": free'
        if not self._text.startswith('"', begun_at):
            raise self._wrong(advice)
        text = self._quoted()
        if not text.strip() or len(text) > TEXT_MAX:
            raise self._wrong(f"the text of an error has 1 to {TEXT_MAX} characters", begun_at)
        self._read(_END, advice)
        return text

    def _trouble(self, word: re.Match[str]) -> FailureClass:
        if word[0] not in TROUBLES:
            near = nearest(word[0], TROUBLES)
            raise self._wrong(
                f"did you mean {near}?" if near else f"the classes are {', '.join(TROUBLES)}", word.start()
            )
        return FailureClass(word[0])

    def _goes_on(self) -> bool:
        """Whether another step follows; reads what stands between."""
        if not self._text[self._at :].strip():
            return False
        self._skip()
        if self._text.startswith(",", self._at):
            self._at += 1
        if self._word() != "then":
            raise self._wrong('steps have ", then" between them, and the actions of one step "and"')
        self._at += len("then")
        return True

    def _step(self) -> EscalationStep:
        step = self._action(EscalationStep())
        while self._word() == "and":
            self._at += len("and")
            step = self._action(step)
        if step.gives_up and step != EscalationStep(gives_up=True):
            raise self._wrong("give-up stands alone")
        return step

    def _action(self, step: EscalationStep) -> EscalationStep:
        word = self._word()
        begun_at = self._at
        self._at += len(word)
        match word:
            case "execution-timeout":
                return self._timeout(step, begun_at)
            case "endpoint":
                if step.endpoint is not None:
                    raise self._wrong("a step has one endpoint", begun_at)
                return msgspec.structs.replace(step, endpoint=self._read(_ENDPOINT, "write endpoint and its id"))
            case "map":
                name = self._read(_FIELD, "write map NAME=TEMPLATE, as in map prompt={{ row.prompt }}")
                if name in dict(step.templates):
                    raise self._wrong(f"{name} stands there twice", begun_at)
                return msgspec.structs.replace(step, templates=(*step.templates, (name, self._template())))
            case "free":
                return msgspec.structs.replace(step, is_free=True)
            case "give-up":
                return msgspec.structs.replace(step, gives_up=True)
            case _:
                pass
        near = nearest(word, _ACTIONS) if word else None
        raise self._wrong(f"did you mean {near}?" if near else f"the actions are {', '.join(_ACTIONS)}", begun_at)

    def _timeout(self, step: EscalationStep, begun_at: int) -> EscalationStep:
        if step.percent != UNCHANGED or step.timeout_ms is not None:
            raise self._wrong("a step has one execution-timeout", begun_at)
        if found := _FACTOR.match(self._text, self._at):
            percent = round(float(found[1]) * 100)
            if not PERCENT_MIN <= percent <= PERCENT_MAX:
                raise self._wrong("it is made longer, by up to 100 times: execution-timeout*1.01 to *100", begun_at)
            self._at = found.end()
            return msgspec.structs.replace(step, percent=percent)
        given = self._read(_GIVEN, "write execution-timeout*2 or execution-timeout=30m")
        try:
            timeout_ms = parse_duration(given) // MILLISECOND_US
        except ValueError as error:
            raise self._wrong(str(error), begun_at) from None
        if problems := policy_problems(Policy(execution_timeout_ms=timeout_ms)):
            raise self._wrong("; ".join(problems), begun_at)
        return msgspec.structs.replace(step, timeout_ms=timeout_ms)

    def _template(self) -> str:
        """One that begins with a quotation mark is a JSON string; every other one ends where the action does."""
        begun_at = self._at
        if self._text.startswith('"', begun_at):
            return self._quoted()
        while self._at < len(self._text) and not _AFTER.match(self._text, self._at):
            part = _PART.match(self._text, self._at)
            assert part is not None
            self._at = part.end()
        if not self._text[begun_at : self._at].strip():
            raise self._wrong("write map NAME=TEMPLATE, as in map prompt={{ row.prompt }}")
        return self._text[begun_at : self._at].strip()

    def _quoted(self) -> str:
        try:
            text, self._at = _json.raw_decode(self._text, self._at)
        except ValueError:
            raise self._wrong("the quotation marks do not end") from None
        return str(text)

    def _read(self, pattern: re.Pattern[str], advice: str) -> str:
        found = pattern.match(self._text, self._at)
        if found is None:
            self._skip()
            raise self._wrong(advice)
        self._at = found.end()
        return found[found.re.groups]

    def _word(self) -> str:
        """The word that stands next; it is not passed."""
        self._skip()
        found = _WORD.match(self._text, self._at)
        return "" if found is None else found[0]

    def _skip(self) -> None:
        space = _SPACE.match(self._text, self._at)
        assert space is not None
        self._at = space.end()

    def _wrong(self, why: str, at: int | None = None) -> ValueError:
        at = self._at if at is None else at
        rest = self._text[at:].split()
        where = f'at "{rest[0]:.40}" (character {at + 1})' if rest else "at its end"
        return ValueError(f"{where}: {why}")


def problems_of(rules: Iterable[EscalationRule], *, max_attempts: int) -> str | None:
    """What is wrong with rules beside one another where a job may be executed so often; None where nothing is."""
    seen: set[str] = set()
    for rule in rules:
        names = {rule.name_for(trouble) for trouble in rule.troubles}
        if both := seen & names:
            return f"there are two rules for {min(both)}; write its steps into one"
        seen |= names
        needed = 1 + sum(not step.gives_up and not step.is_free for step in rule.steps)
        if needed > max_attempts and EXECUTIONS & set(rule.troubles):
            return f"{format_rule(rule)}: its steps take {needed} executions of a job, and {max_attempts} are allowed"
    return None


def description_of(step: EscalationStep, endpoint: str | None) -> str:
    """What `step` gives, in words, for a job's history, empty where that is an attempt only; `endpoint`: where it leads
    in fact.
    """
    parts = []
    if step.timeout_ms is not None:
        parts.append(f"execution timeout {format_duration(step.timeout_ms * MILLISECOND_US)}")
    if step.percent != UNCHANGED:
        parts.append(f"{times_text(step.percent)} times the execution timeout")
    if endpoint is not None:
        parts.append(f"endpoint {endpoint}")
    if step.templates:
        parts.append(f"another {' and '.join(name for name, _ in step.templates)}")
    return " and ".join(parts) or ("" if step.is_free else "nothing new")
