"""Rows that travel together in a simulated world: what a run is told of it, what the handler makes of a chunk, and which
rows are in one.
"""

import random
from collections.abc import Callable
from typing import Any, Final

import msgspec

from orchestrator.emulator.jobs.jobs import WorkerResult
from orchestrator.settings.run_request import RunRequest
from tests.engine.chunks.travelling import Handler
from tests.simulation.plan import Plan

SPOILS: Final = ("fewer", "more")
SPOILS_BY_ID: Final = (*SPOILS, "swapped", "double", "foreign")
"""By place nobody could see that parts were swapped. By id that is nothing wrong."""


def for_chunks(request: RunRequest, plan: Plan) -> RunRequest:
    """The request with what a run is told of chunks."""
    chunks = plan.chunks
    if chunks is None or request.settings is None:
        return request
    settings = msgspec.structs.replace(
        request.settings, chunk=chunks.terms, chunk_input=chunks.form.template, chunk_output=chunks.form.member
    )
    return msgspec.structs.replace(request, settings=settings)


def rows_in(raw_input: bytes) -> tuple[bytes, ...]:
    """The inputs of the rows of which this is the joint input; of that of a single row, itself."""
    if not raw_input.startswith((b'{"items":', b'{"rows":')):
        return (raw_input,)
    found: dict[str, Any] = msgspec.json.decode(raw_input)
    inputs = found.get("items") or [row["input"] for row in found["rows"]]
    return tuple(msgspec.json.encode(each) for each in inputs)


class ChunkWorker:
    """The handler of a world: spoils what it makes now and then."""

    def __init__(self, plan: Plan, output_of: Callable[[bytes], bytes]) -> None:
        assert plan.chunks is not None
        self._plan = plan.chunks
        self._chance = random.Random(f"spoils {plan.seed}")
        self._spoils = SPOILS_BY_ID if plan.chunks.is_by_id else SPOILS

        def part_of(n: int) -> Any:
            return msgspec.json.decode(output_of(b'{"n":%d}' % n))

        self._handler = Handler(poisonous=plan.chunks.poisonous, bad=plan.chunks.bad, output_of=part_of)

    def work(self, raw_input: bytes) -> WorkerResult:
        """What comes of a chunk this time."""
        is_spoilt = self._chance.random() < self._plan.spoilt_share
        return self._made(raw_input, self._chance.choice(self._spoils) if is_spoilt else "")

    def output(self, raw_input: bytes) -> bytes | None:
        """What comes of a chunk whose output is not spoilt, if anything."""
        return self._made(raw_input, "").output

    def _made(self, raw_input: bytes, spoil: str) -> WorkerResult:
        self._handler.spoil = spoil
        return self._handler(raw_input, 1)
