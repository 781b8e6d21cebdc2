"""What a planted fault is."""

import msgspec


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """A deliberate mistake: an old text of the project, which occurs exactly once in its file, and a new one."""

    name: str
    path: str
    old: str
    new: str
    tests: tuple[str, ...]
    """Tests of the suite, as pytest names them; each must fail."""
    worlds: tuple[str, int, int] | None = None
    """Scenario, first seed and number of the simulated worlds of which at least one must be violated."""
