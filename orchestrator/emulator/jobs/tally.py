"""Counts what was done to each input, under a key that a test chooses: who was executed (and paid for) twice?

Off by default, because it grows with every input for as long as the emulator lives.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping


class Tally:
    """How often each key was accepted, executed and completed.

    `key` turns the raw JSON of an input into what makes it "the same input" (a line number inside it, or all of it).
    """

    def __init__(self, key: Callable[[bytes], Hashable] = bytes) -> None:
        self._key = key
        self.accepted: Counter[Hashable] = Counter()
        """Submissions that got a job."""
        self.executed: Counter[Hashable] = Counter()
        """Executions that a worker began; each of them is paid for."""
        self.completed: Counter[Hashable] = Counter()
        self.executed_jobs: Counter[str] = Counter()
        """Executions by job id."""

    def note_accepted(self, raw_input: bytes) -> None:
        self.accepted[self._key(raw_input)] += 1

    def note_executed(self, raw_input: bytes, job_id: str) -> None:
        self.executed[self._key(raw_input)] += 1
        self.executed_jobs[job_id] += 1

    def note_completed(self, raw_input: bytes) -> None:
        self.completed[self._key(raw_input)] += 1

    def paid_twice(self) -> Mapping[Hashable, int]:
        """The keys that were executed more than once, and how often."""
        return {key: times for key, times in self.executed.items() if times > 1}
