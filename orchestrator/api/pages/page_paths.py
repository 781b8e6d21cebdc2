"""Where things are shown, and asked for: paths from the root of the pages, by the numbers that things have for good."""

from collections.abc import Mapping
from typing import Final

from orchestrator.core.diagnosis.need_facts import Cure, Subject

_ROOTS: Final[Mapping[Subject, str]] = {
    Subject.RUN: "/runs",
    Subject.FLOW: "/flows",
    Subject.PIPELINE: "/pipelines",
    Subject.ENGINE: "/engine",
    Subject.MESSAGES: "/messages",
}


ALL_MESSAGES: Final = "all"
"""In the place of a message's id: all that did not reach anybody."""


def page_path(subject: Subject, number: int | None) -> str:
    """Where it is shown in full."""
    return _ROOTS[subject] if number is None else f"{_ROOTS[subject]}/{number}"


def cure_path(subject: Subject, number: int | None, cure: Cure | None) -> str | None:
    """Where that is asked for; None where nothing helps, or where it is asked for of single ones."""
    if cure is Cure.RESEND:
        return f"{_ROOTS[Subject.MESSAGES]}/{ALL_MESSAGES}/{cure}"
    if cure is None or number is None:
        return None
    verb = "release" if cure is Cure.CONTINUE and subject is Subject.RUN else cure
    return f"{page_path(subject, number)}/{verb}"
