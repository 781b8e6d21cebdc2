"""The batches of a run at the service, as a table."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from orchestrator.cli.output import tables
from orchestrator.core.batches.batch_record import ENDED
from orchestrator.core.text.figures import minute
from orchestrator.core.text.wording import counted
from orchestrator.views.batches import BatchStatus

if TYPE_CHECKING:
    from rich.table import Table  # at run time `--help` would pay for it

_WORDS: Final = frozenset({"is", "since (UTC)", "ends about"})
_CAN_GO: Final = {"failed": 2, "ends about": 3, "since (UTC)": 4}
"""Which columns go first where there is no room for all."""


def batches_table(batches: Sequence[BatchStatus], *, width: int | None = None) -> "Table":
    """Those about which something is to be done still, a line for each, and how many have ended."""
    shown = [each for each in batches if each.stage not in ENDED]
    names = [each.batch or "-" for each in shown]
    figures = [
        ("is", [each.word for each in shown]),
        ("since (UTC)", [minute(each.since) for each in shown]),
        ("rows", [f"{each.rows:,}" for each in shown]),
        ("done", [f"{each.completed:,}" for each in shown]),
        ("failed", [f"{each.failed:,}" if each.failed else "" for each in shown]),
        ("ends about", ["" if each.ends_at is None else minute(each.ends_at) for each in shown]),
    ]
    if over := len(batches) - len(shown):
        names.append(f"{counted(over, 'other')} that {'has' if over == 1 else 'have'} ended")
        ended = [each for each in batches if each.stage in ENDED]
        failed = sum(each.failed for each in ended)
        last = (
            "",
            "",
            f"{sum(each.rows for each in ended):,}",
            f"{sum(each.completed for each in ended):,}",
            failed,
            "",
        )
        figures = [
            (heading, [*cells, f"{more}" if more else ""]) for (heading, cells), more in zip(figures, last, strict=True)
        ]
    columns = [
        tables.Figures(heading, cells, is_right=heading not in _WORDS, can_go=_CAN_GO.get(heading, 0))
        for heading, cells in figures
        if any(cells)
    ]
    return tables.of_names("batch", names, columns, width=width)
