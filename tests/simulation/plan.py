"""What happens in one simulated world: drawn from a scenario and a seed, before anything runs.

A plan is plain data. Whatever chance decides about the world as a whole stands in it, so that a failing seed can be
read; chances inside the world (how long an execution takes, which answer is lost) come from generators with its seed.
Seconds are virtual and count from the world's beginning.
"""

from enum import StrEnum, auto

import msgspec

from orchestrator.emulator.counters import Algorithm
from orchestrator.emulator.faults import Faults
from orchestrator.settings import OnExpired, OnUncertain

MINUTE_S = 60.0
HOUR_S = 60 * MINUTE_S
DAY_S = 24 * HOUR_S


class Kill(StrEnum):
    """At which moment of the database a process is killed."""

    CALL = auto()
    """As a call begins."""
    BEFORE_COMMIT = auto()
    AFTER_COMMIT = auto()
    """The commit is durable, and nobody has heard of it."""


class Crash(msgspec.Struct, frozen=True):
    """A process is killed at the `number`th moment of that kind (from 1)."""

    kill: Kill
    number: int


class Trouble(StrEnum):
    """What goes wrong around the program."""

    NETWORK_GONE = auto()
    """Connections are refused in both directions, and answers under way are lost."""
    SERVICE_GONE = auto()
    """The service cuts every connection."""
    ENDPOINT_HIDDEN = auto()
    """The service answers 404 to everything."""
    CLOCK_JUMP = auto()
    """The wall clock of the program is set by `size` seconds."""
    STOP = auto()
    """The process is asked to stop; somebody gives the command again `size` seconds later."""


class Weather(msgspec.Struct, frozen=True, kw_only=True):
    """One trouble: from `at_s` on, for `size` seconds (or, see `Trouble`, by so many)."""

    trouble: Trouble
    at_s: float
    size: float

    @property
    def until_s(self) -> float:
        return self.at_s + self.size


class Rate(msgspec.Struct, frozen=True):
    """At most `requests` in `window_s`, `concurrent` at once."""

    requests: int
    window_s: float
    concurrent: int


class Plan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One world. The defaults are a calm one at the contract's limits."""

    scenario: str
    seed: int
    jobs: int = 20
    workers: int = 5
    seconds: tuple[float, float] = (0.2, 3.0)
    """Executions take this long, evenly spread."""
    retention_s: float = 30 * MINUTE_S
    ttl_s: float = DAY_S
    execution_timeout_s: float = 10 * MINUTE_S
    run_rate: Rate = Rate(1000, 10, 200)
    status_rate: Rate = Rate(2000, 10, 400)
    algorithm: Algorithm = Algorithm.SLIDING_LOG
    faults: Faults = Faults()
    calm_at_s: float = 0.0
    """When faults and weather are over; from then on the program must come to an end."""
    patience_s: float = 2 * HOUR_S
    """How long after that."""
    travel_s: float = 0.1
    """A message travels for up to this long, one way."""
    database_s: float = 0.02
    """A call of the database takes up to this long."""
    webhooks: bool = False
    storm: int = 1
    """Every webhook comes this often, and as often with a token that is not quite right."""
    secrets: bool = False
    """The jobs carry secrets of the environment, and workers that fail repeat them."""
    max_attempts: int = 3
    on_uncertain: OnUncertain = OnUncertain.RESUBMIT
    on_expired: OnExpired = OnExpired.RESUBMIT
    all_succeed: bool = False
    """Nothing happens that could be the end of a job: each must have its result."""
    crashes: tuple[Crash, ...] = ()
    """The first process dies of the first, and so on."""
    away_s: float = 5.0
    """How long after the end of a process the next one begins."""
    weather: tuple[Weather, ...] = ()

    def of(self, trouble: Trouble) -> tuple[Weather, ...]:
        """The weather of one kind."""
        return tuple(each for each in self.weather if each.trouble is trouble)

    def __str__(self) -> str:
        """The plan as a few lines of text, without what is as usual."""
        fields = [(name, getattr(self, name)) for name in self.__struct_fields__]
        usual = {field.name: field.default for field in msgspec.structs.fields(self)}
        return "\n".join(f"  {name}: {_text(value)}" for name, value in fields if value != usual[name])


def _text(value: object) -> str:
    match value:
        case Faults():
            return ", ".join(
                f"{name} {getattr(value, name):g}"
                for name in value.__struct_fields__
                if getattr(value, name) != getattr(Faults(), name)
            )
        case Weather():
            return f"{value.trouble} at {value.at_s:g} s ({value.size:g} s)"
        case Crash():
            return f"{value.kill} {value.number}"
        case Rate():
            return f"{value.requests} in {value.window_s:g} s, {value.concurrent} at once"
        case tuple():
            return "; ".join(map(_text, value))
        case _:
            return f"{value:g}" if isinstance(value, float) else str(value)
