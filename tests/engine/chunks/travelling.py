"""A handler that takes several rows at once, as simulated workers have it."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import Any

import msgspec

from orchestrator.core.chunks.chunk_terms import ChunkTerms
from orchestrator.emulator.jobs.jobs import WorkerResult
from orchestrator.settings.run_settings import RunSettings

CHUNKS = RunSettings(chunk=ChunkTerms(rows=16))
BY_ID = RunSettings(chunk=ChunkTerms(rows=16), chunk_input='{"rows":"{rows}"}', chunk_output="rows")

POISON = "it does not fit into memory"


def doubled(n: int) -> dict[str, int]:
    return {"twice": 2 * n}


def said_of_bad(n: int) -> str:
    """What the handler says of that row, if it is a bad one."""
    return f"{n} is bad"


class Handler:
    """Makes `output_of` of `n` of each row. It dies of `poisonous` ones, and says of `bad` ones that they are bad;
    `spoil` is done to its output, unless the chunk is a single row.
    """

    def __init__(
        self,
        *,
        poisonous: Collection[int] = (),
        bad: Collection[int] = (),
        spoil: str = "",
        output_of: Callable[[int], Any] = doubled,
    ) -> None:
        self.poisonous, self.bad, self.spoil = poisonous, bad, spoil
        self._output_of = output_of
        self.sizes: list[int] = []
        self.seen = Counter[int]()

    def __call__(self, given: bytes, _number: int) -> WorkerResult:
        """Works on one chunk."""
        found = msgspec.json.decode(given)
        by_id = "rows" in found
        rows = found["rows"] if by_id else found["items"]
        numbers = [row["input"]["n"] if by_id else row["n"] for row in rows]
        self.sizes.append(len(rows))
        self.seen.update(numbers)
        if set(numbers) & set(self.poisonous):
            return WorkerResult(error=POISON)
        parts = [self._part(number) for number in numbers]
        if by_id:
            parts = [{"id": row["id"], "output": part} if "error" not in part else {"id": row["id"], **part}
                     for row, part in zip(rows, parts, strict=True)]  # fmt: skip
        if len(rows) > 1:
            parts = list(self._spoilt(parts))
        return WorkerResult(output=msgspec.json.encode({"rows": parts} if by_id else parts))

    def _part(self, number: int) -> Any:
        return {"error": said_of_bad(number)} if number in self.bad else self._output_of(number)

    def _spoilt(self, parts: list[Any]) -> Iterable[Any]:
        match self.spoil:
            case "fewer":
                return parts[:-1]
            case "more":
                return [*parts, parts[0]]
            case "swapped":
                return parts[::-1]
            case "double":
                return [parts[0], *parts[:-1]]
            case "foreign":
                return [{**parts[0], "id": "nobody"}, *parts[1:]]
            case _:
                return parts
