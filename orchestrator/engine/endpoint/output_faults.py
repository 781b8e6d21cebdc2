"""Why outputs of single runs cannot be judged, or no files be made of them: nothing more of such a run is sent to any
of its endpoints, wherever that was found out.
"""

from orchestrator.engine.runtime.subscribers import Subscribers


class OutputFaults:
    """Of all runs of one process, by their numbers. `changes` hears when one has begun or is mended."""

    def __init__(self) -> None:
        self.changes = Subscribers()
        self._unjudged: dict[int, str] = {}
        self._no_files: dict[int, str] = {}

    def why(self, run: int) -> str | None:
        """What is wrong with the outputs of `run`, if anything."""
        return self._unjudged.get(run) or self._no_files.get(run)

    def observe_unjudged(self, run: int, why: str) -> None:
        """An output of `run` could not be judged; that is not looked at again."""
        self._observe(self._unjudged, run, why)

    def observe_files(self, run: int, why: str | None) -> None:
        """Why no files can be made of outputs of `run`; None: they can."""
        self._observe(self._no_files, run, why)

    def _observe(self, faults: dict[int, str], run: int, why: str | None) -> None:
        is_news = (run in faults) is (why is None)
        if why is None:
            faults.pop(run, None)
        else:
            faults.setdefault(run, why)
        if is_news:
            self.changes.wake()
