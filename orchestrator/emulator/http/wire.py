"""What can happen to a request of any interface on its way in and out: outages, and the faults of the wire.

Pure: it decides, `delivery` carries it out. The interfaces ask in this order: `connect` before anything else,
`throttles` once the key is good, `fails` once the request is within its limits, and `sending` for the answer.
"""

from enum import StrEnum
from http import HTTPStatus

import msgspec

from orchestrator.emulator.contract.answers import (
    HTML_PAGE,
    ConnectionCut,
    ErrorBodies,
    HttpAnswer,
    ServiceRefusal,
    bombed,
    in_form,
    with_strange_error,
)
from orchestrator.emulator.contract.faults import BYTE_ORDER_MARK, Fault, FaultDice
from orchestrator.units import SECOND_US

BARE_ERROR = b'{"error":"something went wrong"}'


def key_in(authorization: str) -> str:
    """The key in a header: `Bearer KEY`, or the bare key, which the service takes as well (as observed); or ""."""
    scheme, _, key = authorization.strip().partition(" ")
    return key.strip() if scheme.lower() == "bearer" else authorization.strip()


class Cut(StrEnum):
    """Where the connection breaks."""

    NOWHERE = "nowhere"
    BEFORE_ANSWER = "before_answer"
    INSIDE_BODY = "inside_body"


class OutgoingAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """How an answer leaves: after `delay_us`, and whole or not."""

    answer: HttpAnswer
    delay_us: int = 0
    cut: Cut = Cut.NOWHERE


class Wire:
    """The way to the service and back, the same for all its interfaces."""

    def __init__(self, dice: FaultDice, error_bodies: ErrorBodies = ErrorBodies.JSON) -> None:
        self._dice = dice
        self._error_bodies = error_bodies
        self._outages: list[tuple[int, int]] = []

    def outage(self, from_at: int, until_at: int) -> None:
        """Cut every connection from `from_at` until just before `until_at` (µs)."""
        self._outages.append((from_at, until_at))

    def check_connection(self, now: int) -> None:
        """Raises ConnectionCut during an outage. Asked again before an answer leaves: it may have begun meanwhile."""
        if self._outages:
            self._outages = [(start, end) for start, end in self._outages if now < end]
            if any(start <= now for start, _ in self._outages):
                raise ConnectionCut

    def connect(self, now: int) -> None:
        """Raises ConnectionCut where the request does not arrive."""
        self.check_connection(now)
        if self._dice.strikes(Fault.LOST_REQUEST):
            raise ConnectionCut
        if self._dice.strikes(Fault.RESET):
            raise ConnectionCut(reset=True)
        if self._dice.strikes(Fault.SWALLOWED_REQUEST):
            raise ConnectionCut(is_silent=True)

    def doubts_key(self) -> bool:
        """Whether a request is to be answered 401 though its key is good."""
        return self._dice.strikes(Fault.UNAUTHORIZED)

    def hides_health(self) -> bool:
        """Whether `/health` is to be answered 404."""
        return self._dice.strikes(Fault.HIDDEN_HEALTH)

    def throttles(self) -> bool:
        """Whether a request is to be answered 429 though it is within its limits."""
        return self._dice.strikes(Fault.THROTTLED)

    def pause_s(self) -> float | None:
        """For how long no such request is to come, where one is answered so though it is within its limits."""
        return self._dice.faults.long_pause_s if self._dice.strikes(Fault.LONG_PAUSE) else None

    def neighbour(self) -> float:
        """Which share of each limit somebody else uses."""
        return self._dice.rate(Fault.NEIGHBOUR)

    def fails(self) -> bool:
        """Whether a request is to be answered 500 before anything is done."""
        return self._dice.strikes(Fault.SERVER_ERROR)

    def sending(
        self, answer: HttpAnswer, *, changes: bool, failure: HttpAnswer | None = None, submits: bool = False
    ) -> OutgoingAnswer:
        """How an answer leaves, after the faults that spoil answers.

        `changes`: something has been done that cannot be asked for again without doing it twice; `submits`: it is a
        job that was accepted by `/run`. `failure` is a 500 in the interface's own form.
        """
        answer = in_form(answer, self._error_bodies)
        is_slow = self._dice.strikes(Fault.SLOW_ANSWER) or (submits and self._dice.strikes(Fault.SLOW_RUN))
        delay_us = round(self._dice.faults.slow_answer_s * SECOND_US) if is_slow else 0
        if changes:
            if self._dice.strikes(Fault.LOST_ANSWER):
                return OutgoingAnswer(answer=answer, delay_us=delay_us, cut=Cut.BEFORE_ANSWER)
            if self._dice.strikes(Fault.SERVER_ERROR_AFTER):
                answer = in_form(failure or ServiceRefusal(500, "internal server error").answer(), self._error_bodies)
        if answer.status < HTTPStatus.MULTIPLE_CHOICES and answer.body and self._dice.strikes(Fault.BARE_ERROR):
            answer = msgspec.structs.replace(answer, body=BARE_ERROR, more=None)
        if answer.status != HTTPStatus.NO_CONTENT and self._dice.strikes(Fault.NOT_JSON):
            answer = HttpAnswer(status=answer.status, body=HTML_PAGE, content_type="text/html", headers=answer.headers)
        if (strange := with_strange_error(answer.body)) != answer.body and self._dice.strikes(Fault.STRANGE_TEXT):
            answer = msgspec.structs.replace(answer, body=strange)
        if answer.body.startswith((b"{", b"[")) and self._dice.strikes(Fault.MARKED_ANSWER):
            answer = msgspec.structs.replace(answer, body=BYTE_ORDER_MARK + answer.body)
        answer = self._shortened(answer)
        if answer.body and answer.more is None and self._dice.strikes(Fault.BOMB_ANSWER):
            answer = bombed(answer, round(self._dice.faults.bomb_bytes))
        if not self._dice.strikes(Fault.CUT_ANSWER):
            return OutgoingAnswer(answer=answer, delay_us=delay_us)
        # An answer without a body is whole as soon as it begins.
        return OutgoingAnswer(
            answer=answer, delay_us=delay_us, cut=Cut.INSIDE_BODY if answer.body else Cut.BEFORE_ANSWER
        )

    def linked(self, answer: HttpAnswer) -> OutgoingAnswer:
        """How a file leaves to which an output links, after the faults that spoil such."""
        if self._dice.strikes(Fault.GONE_LINK):
            expired = HttpAnswer(status=HTTPStatus.FORBIDDEN, body=b"expired", content_type="text/plain")
            return OutgoingAnswer(answer=expired)
        if self._dice.strikes(Fault.PAGE_LINK):
            return OutgoingAnswer(answer=HttpAnswer(status=answer.status, body=HTML_PAGE, content_type="text/html"))
        cut = Cut.INSIDE_BODY if self._dice.strikes(Fault.CUT_LINK) else Cut.NOWHERE
        return OutgoingAnswer(answer=answer, cut=cut)

    def _shortened(self, answer: HttpAnswer) -> HttpAnswer:
        """The answer, or what a proxy has left of it; to its reader it is whole."""
        if self._dice.strikes(Fault.EMPTY_ANSWER):
            return msgspec.structs.replace(answer, body=b"", more=None)
        if self._dice.strikes(Fault.HALF_ANSWER):
            return msgspec.structs.replace(answer, body=answer.body[: len(answer.body) // 2], more=None)
        return answer
