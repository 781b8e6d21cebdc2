"""Outputs whose members become files: what that takes of memory and time beside keeping them whole, and what it leaves
of the ledger.
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import msgspec

from orchestrator.views.status import Summary
from tests.benchmarks.figures import Figure
from tests.benchmarks.processes import Verdict, orchestrator, stand_in
from tests.benchmarks.runs import run_flags, write_input
from tests.benchmarks.stand_in import Behaviour

IMAGES: Final = 500
IMAGE_BYTES: Final = 3_000_000
SAVE: Final = ("--save", "output.data=out/{custom_id}.png")

PEAK_MB_MAX: Final = 250.0
ROW_MB_MAX: Final = 0.005
"""So much of the ledger a row may take whose image is a file."""

SECONDS_MAX: Final = 3_600.0


class _Run(NamedTuple):
    ended: Verdict
    ledger_mb: float


def saves(images: int = IMAGES, image_bytes: int = IMAGE_BYTES) -> list[Figure]:
    """A run of images that become files, and one of which they stay where they are."""
    whole, saved = _run(images, image_bytes), _run(images, image_bytes, *SAVE)
    named = f"{images:,} images of {image_bytes / 1e6:g} MB"
    found = (
        (f"{named}: peak memory", saved.ended.peak_mb, "MB", PEAK_MB_MAX),
        (f"{named}, not saved: peak memory", whole.ended.peak_mb, "MB", None),
        (f"{named}: ledger", saved.ledger_mb, "MB", images * ROW_MB_MAX),
        (f"{named}, not saved: ledger", whole.ledger_mb, "MB", None),
        ("time, beside without", saved.ended.wall_s / whole.ended.wall_s, "times", None),
    )
    return [
        Figure(benchmark="saves", name=name, value=value, unit=unit, at_most=at_most)
        for name, value, unit, at_most in found
    ]


def _run(images: int, image_bytes: int, *flags: str) -> _Run:
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_input(folder / "input.jsonl", images)
        size = image_bytes * 4 // 3  # as Base64
        with stand_in(Behaviour(output_bytes=(size, size))) as service:
            command = ("run", "input.jsonl", *run_flags(service.url), *flags)
            ended = orchestrator(command, folder=folder, seconds_max=SECONDS_MAX)
        assert ended.exit_code == 0, ended.stderr
        assert msgspec.json.decode(ended.stdout, type=Summary).jobs["succeeded"] == images
        made = [path.stat().st_size for path in folder.glob("out/*.png")]
        assert made == [image_bytes] * (images if flags else 0), made
        ledger = sum(path.stat().st_size for path in folder.glob("ledger.db*"))
        return _Run(ended, ledger / 1e6)
