"""Somebody whom webhooks are delivered to."""

from collections.abc import Awaitable, Callable, Mapping

import anyio


class Receiver:
    """Answers with the given statuses in turn, and notes when it was called with what."""

    def __init__(self, *answers: Callable[[], Awaitable[int]] | int) -> None:
        self._answers = list(answers)
        self.calls: list[tuple[float, str, bytes, dict[str, str]]] = []
        self.at_once = 0
        self.at_once_max = 0

    async def __call__(self, url: str, body: bytes, headers: Mapping[str, str]) -> int:
        self.calls.append((anyio.current_time(), url, body, dict(headers)))
        self.at_once += 1
        self.at_once_max = max(self.at_once, self.at_once_max)
        try:
            answer = self._answers.pop(0)
            return answer if isinstance(answer, int) else await answer()
        finally:
            self.at_once -= 1

    @property
    def times(self) -> list[float]:
        return [round(call[0] - self.calls[0][0], 3) for call in self.calls]
