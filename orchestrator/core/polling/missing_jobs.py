"""Whether 404s mean that jobs were lost, or that their endpoint does not know its jobs for now (an outage).

An endpoint that vanished for a minute must not have all its jobs paid again: while many of its jobs are unknown to it,
none is declared lost. A service that loses one in a hundred must not stop a run either, and with webhooks hardly any
job is asked for but those. So each missing job counts once, and the others are not those that were asked for, but all
that are known: those that an answer or a webhook was about, and those just accepted. Times are microseconds UTC.
"""

from collections.abc import Awaitable, Callable

from orchestrator.units import SECOND_US


class MissingJobs:
    """The jobs of one endpoint that were missing of late, by their submissions. Two windows are kept, and no older."""

    WINDOW_US = 60 * SECOND_US
    SHARE_MAX = 0.05
    MANY = 20

    def __init__(self) -> None:
        self._window_at = 0
        self._known = [0, 0]
        self._missing: list[set[int]] = [set(), set()]
        self._since_life: set[int] = set()
        self.answered_at = 0
        """The latest time at which a question was sent that the service answered for a job."""

    def accepted(self, now: int) -> None:
        """The service took a job. That it knows the earlier ones does not follow."""
        self._roll(now)
        self._known[0] += 1

    def answered(self, at: int, now: int) -> None:
        """The service knew a job that it was asked for at `at`."""
        self.known_by_webhook(now)
        self.answered_at = max(self.answered_at, at)

    def known_by_webhook(self, now: int) -> None:
        """The service knows a job whose webhook came. Workers may live on at an endpoint that answers nobody."""
        self._roll(now)
        self._known[0] += 1
        self._since_life.clear()

    def missing(self, submission: int, now: int) -> None:
        """The service does not know a job."""
        self._roll(now)
        self._missing[0].add(submission)
        self._since_life.add(submission)

    async def are_many(self, now: int, *, outstanding: int, sent_since: Callable[[int], Awaitable[int]]) -> bool:
        """Whether so many are missing that the endpoint must be to blame, rather than the jobs.

        `outstanding`: how many jobs are at the service, as far as one knows. `sent_since` tells how many were accepted
        from a submission on, that included; it is asked only where the others known of late are few. That is so when an
        endpoint vanishes, and also at the end of a run, when those that were lost are all that is left. Then they are
        few among those that were sent with them, while of an endpoint that vanished most are missing. And as long as
        others are outstanding, one of them should have given a sign of life meanwhile.
        """
        self._roll(now)
        found = sorted(self._missing[0] | self._missing[1])
        if len(found) < self.MANY or len(found) <= self.SHARE_MAX * (sum(self._known) + len(found)):
            return False
        if len(self._since_life) >= self.MANY and outstanding > 2 * len(found):
            return True
        later = found[len(found) // 2 :]
        return len(later) > self.SHARE_MAX * await sent_since(later[0])

    def _roll(self, now: int) -> None:
        if now < self._window_at + self.WINDOW_US:
            return
        is_next = now < self._window_at + 2 * self.WINDOW_US
        self._known = [0, self._known[0] if is_next else 0]
        self._missing = [set(), self._missing[0] if is_next else set()]
        self._window_at = now
