"""What was asked, by whom and by which way, and what came of it; and what people confirm before they ask."""

from collections.abc import Mapping

import msgspec


class ActionLine(msgspec.Struct, frozen=True, kw_only=True):
    """One action. Times are microseconds since the epoch, UTC."""

    id: int
    asked_at: int
    asked_by: str
    way: str
    """`page`, `command`, `python`, or `unknown`."""

    verb: str
    kind: str
    """What was asked something of: a run, a flow, a pipeline, an endpoint, a message or the ledger."""

    number: int | None
    """Of that, in the ledger."""

    subject: str
    path: str | None
    """Its page; None where there is none."""

    where: str
    """A filter of its jobs."""

    options: Mapping[str, str]
    asked: int | None
    """How many jobs, fires or messages it was to concern, where that was counted."""

    done: int | None
    """How many it did, or has done so far."""

    left: int | None
    """How many of those it has not done."""

    state: str
    """`waiting`, `running`, `done`, `refused`, or `unknown`: it was begun, and whoever did it ended before it said
    what came of it."""

    outcome: str
    """What came of it, in a sentence, or why nothing has yet."""

    command: str = ""
    """What is typed to have it done, where it waits for somebody who works on the ledger; empty where it does not."""

    done_at: int | None


class ActionList(msgspec.Struct, frozen=True, kw_only=True):
    """Some of the actions of a ledger, the latest first."""

    actions: tuple[ActionLine, ...]
    by: str
    what: str
    after: int | None
    """The number behind which the next ones come; None: these were the last."""


class AskedField(msgspec.Struct, frozen=True, kw_only=True):
    """What a form asks for."""

    name: str
    label: str
    value: str = ""
    kind: str = "text"
    """As HTML has it: text, number, checkbox; or `select`."""

    choices: tuple[str, ...] = ()
    note: str = ""


class Confirmation(msgspec.Struct, frozen=True, kw_only=True):
    """What a person is shown before something is done."""

    title: str
    says: tuple[str, ...]
    """What will be done, in sentences."""

    paid: str
    """What may be paid by it, or again."""

    when: str
    """When it happens, where not at once."""

    count: int | None
    """How many jobs, flows or messages it concerns, counted now; None where it concerns none of them one by one."""

    of: str
    """What these are, as "jobs"."""

    sample: tuple[str, ...]
    """Some of them."""

    command: str
    """The command that does the same."""

    typed: str | None
    """What has to be typed, so that nobody does this by the way."""

    inputs: tuple[AskedField, ...]
    hidden: Mapping[str, str]
    """What else the form carries."""

    button: str
    is_ready: bool
    """False where something has to be said first."""

    problem: str
    """Why it was not done."""

    path: str
    back: str
    """Where it was asked from."""

    form: str
    """The id of this form, which acts once."""
