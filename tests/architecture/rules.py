"""A rule finds its breaches in files; those of before it stand in a list, which may only shrink.

python -m tests.architecture.rules

takes what is a breach no longer out of the lists. Nothing puts a new one in.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from tests.architecture.source import Module, modules

LISTS: Final = Path(__file__).with_name("breaches")

Finds = Callable[[Sequence[Module]], Iterable[str]]


class Rule(msgspec.Struct, frozen=True):
    """What must not be, and where."""

    name: str
    finds: Finds
    """The breaches in these files; a breach is called by what does not change with the lines above it."""
    breach: Mapping[str, str]
    """Files that break the rule, each with its text."""
    folders: tuple[str, ...] = ("orchestrator",)

    @property
    def list(self) -> Path:
        return LISTS / f"{self.name.replace(' ', '_')}.txt"

    def found(self) -> set[str]:
        return set(self.finds(modules(*self.folders)))

    def known(self) -> set[str]:
        return set(self.list.read_text(encoding="utf-8").splitlines()) if self.list.exists() else set()

    def write(self, breaches: set[str]) -> None:
        self.list.parent.mkdir(exist_ok=True)
        if breaches:
            self.list.write_text("".join(f"{each}\n" for each in sorted(breaches)), encoding="utf-8")
        else:
            self.list.unlink(missing_ok=True)


def main() -> None:
    """Shrinks the lists."""
    from tests.architecture.test_rules import RULES

    for rule in RULES:
        left = rule.found() & rule.known()
        rule.write(left)
        print(f"{len(left):5} {rule.name}")


if __name__ == "__main__":
    main()
