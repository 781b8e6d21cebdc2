"""One request of a person to an endpoint: within the limits, its answer typed, and every refusal one kind of error."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeVar

from orchestrator.client.http.backends import Request
from orchestrator.client.jobs.rate_limiter import Permit
from orchestrator.client.jobs.refusals import JobRefusedError, errors_about, read_refusal
from orchestrator.client.jobs.retries import Sleep, repeated
from orchestrator.client.jobs.serverless import ServerlessEndpoint
from orchestrator.core.limits.rate_pacer import Operation
from orchestrator.core.service.http_answers import Answer
from orchestrator.core.text.redaction import Redactor
from orchestrator.errors import Unanswered

NOTHING_SECRET: Final = Redactor({})
"""The API key is hidden below already."""

CONSEQUENCES: Final = {
    Operation.RUN: "the job may exist all the same, and to repeat it may be paid twice",
    Operation.RUNSYNC: "the job may exist all the same, and to repeat it may be paid twice",
    Operation.OPENAI: "it may have been carried out all the same",
    Operation.RETRY: "look at the job's status before repeating it",
    Operation.CANCEL: "look at the job's status",
    Operation.PURGE_QUEUE: "the queue may be empty all the same",
    Operation.STREAM: "chunks may be missing, another stream goes on with the next ones",
    Operation.BATCH: "it may be done all the same: look at the endpoint's batches before repeating it",
}
"""What it means that no usable answer came, where the request may have changed something."""

Send = Callable[[Permit], Awaitable[Answer]]
"""Sends one request with a permit for it."""

T = TypeVar("T")


class CheckedCalls:
    """Requests to the endpoint of `api`. `sleep` waits before a question is asked again."""

    def __init__(self, api: ServerlessEndpoint, sleep: Sleep) -> None:
        self.api = api
        self._sleep = sleep
        self.notify: Callable[[], Awaitable[None]] | None = None
        """Called whenever a request is about to wait for its turn."""

    async def asked(self, doing: str, operation: Operation, path: str, read: Callable[[bytes], T]) -> T:
        """The answer to a question, which is asked again while that may help."""
        return await repeated(partial(self.once, doing, operation, self.api.question(path), read), self._sleep)

    async def once(
        self,
        doing: str,
        operation: Operation,
        request: Request,
        read: Callable[[bytes], T],
        *,
        within_s: float | None = None,
        redactor: Redactor = NOTHING_SECRET,
    ) -> T:
        """The answer to one request, read. Every error begins with `doing`."""

        async def send(permit: Permit) -> Answer:
            return await self.api.send(permit, operation, request, within_s=within_s)

        return await self.sent(doing, operation, send, read, redactor=redactor)

    async def asked_by(self, doing: str, operation: Operation, ask: Send, read: Callable[[bytes], T]) -> T:
        """The answer to a question that `ask` sends, which is asked again while that may help."""
        return await repeated(partial(self.sent, doing, operation, ask, read, is_question=True), self._sleep)

    async def sent(
        self,
        doing: str,
        operation: Operation,
        send: Send,
        read: Callable[[bytes], T],
        *,
        redactor: Redactor = NOTHING_SECRET,
        is_question: bool = False,
    ) -> T:
        """The same for what `send` sends. `is_question`: it changes nothing, although others of its operation do."""
        with errors_about(doing, "" if is_question else CONSEQUENCES.get(operation, "")):
            if self.notify is not None:
                await self.notify()
            answer = await send(await self.api.limiter.permit(operation))
            if not 200 <= answer.status < 300:  # noqa: PLR2004  the range is the definition of success
                refusal = read_refusal(answer, redactor)
                raise JobRefusedError(doing, operation, refusal, is_question=is_question)
            try:
                return read(answer.body)
            except ValueError as trouble:
                raise Unanswered(str(trouble)) from None
