"""What a planted fault is."""

import msgspec


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """A deliberate mistake: a statement of the project, or a part of one, that stands exactly once in its place, and
    another in its stead."""

    name: str
    path: str
    """The file, with the class, function or constant in which the statement stands: `path::Class.method`."""
    old: str
    """The statement as it would stand on one line, or with its lines indented from the first one's margin."""
    new: str
    tests: tuple[str, ...]
    """Tests of the suite, as pytest names them; each must fail."""
    worlds: tuple[str, int, int] | None = None
    """Scenario, first seed and number of the simulated worlds of which at least one must be violated."""

    @property
    def file(self) -> str:
        return self.path.partition("::")[0]
