"""The emulator's time, which may run faster than the clock's: a minute a second, say."""

from orchestrator.clock import Clock


class ScaledClock:
    """Begins at the clock's time; from then on `scale` seconds pass in each of the clock's."""

    def __init__(self, clock: Clock, scale: float) -> None:
        self._clock = clock
        self._scale = scale
        self._start = clock.now()

    def now(self) -> int:
        return self._start + round((self._clock.now() - self._start) * self._scale)
