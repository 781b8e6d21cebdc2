"""A report as one HTML file that stands alone: its styles are in it, and there is no script, link or picture."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import tzinfo
from pathlib import Path
from typing import Final

import msgspec
from jinja2 import Environment
from markupsafe import Markup

from orchestrator.api.pages.runs.payload_policy import PayloadPolicy
from orchestrator.api.pages.runs.report import report_content
from orchestrator.clock import Clock
from orchestrator.core.text.wording import counted
from orchestrator.dashboard.rendering.jinja_environment import STATIC, environment
from orchestrator.formats.output.atomic_file import Replacement
from orchestrator.ledger import Connect, read_ledger
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.views.runs.report import ReportContent, WrittenReport

SIZE_MAX: Final = 300_000
"""So many bytes go into any message."""

_STYLES: Final = ("style.css", "charts.css")


class ReportPage(msgspec.Struct, frozen=True, kw_only=True):
    """A report as HTML."""

    html: bytes
    left_out: Sequence[str]
    """What there was no room for."""


async def read_report(
    ledger: LedgerAddress, name: str, *, shows: PayloadPolicy, clock: Clock, connect: Connect | None = None
) -> ReportContent:
    """The report of the run or flow `name` of the ledger at that path. Raises `UsageError`."""
    async with read_ledger(ledger, clock=clock, connect=connect) as opened:
        return await report_content(opened, await opened.holder_or_next(), name, shows=shows)


def write_report(report: ReportContent, ledger: LedgerAddress, zone: tzinfo, output: Path) -> WrittenReport:
    """Writes it to `output`, which appears whole or not at all; moments are those of the clock of `zone`.

    Raises `UsageError` for a place that nothing can be written to, and `StorageError`.
    """
    page = report_page(report, ledger, zone)
    with Replacement(output) as file:
        file.write(page.html)
        file.commit()
    return WrittenReport(output=str(output), name=report.name, size=len(page.html), left_out=page.left_out)


def report_page(report: ReportContent, ledger: LedgerAddress, zone: tzinfo, *, size_max: int = SIZE_MAX) -> ReportPage:
    """The report as HTML, of at most `size_max` bytes: where it would be more, charts of stages are left out from the
    last one on, and then settings; and at last the later stages.
    """
    made = environment(ledger, zone)
    page = ReportPage(html=b"", left_out=())
    for runs, charts_of, settings_of in _shorter(len(report.runs)):
        page = _page(made, report, runs, charts_of, settings_of)
        if len(page.html) <= size_max:
            break
    return page


def _shorter(runs: int) -> Iterator[tuple[int, int, int]]:
    """Of how many runs there are texts, charts and settings, from all on."""
    for charts in _fewer(runs):
        yield runs, charts, runs
    for less in _fewer(runs):
        yield less, 0, 0


def _fewer(most: int) -> Iterable[int]:
    """Fewer and fewer of so many, in eight steps at most."""
    return dict.fromkeys(most * eighths // 8 for eighths in range(8, -1, -1))


def _page(made: Environment, report: ReportContent, runs: int, charts_of: int, settings_of: int) -> ReportPage:
    number = len(report.runs)
    left_out = [
        f"{what} of {counted(number - shown, 'run')}"
        for what, shown in (("all", runs), ("the charts", charts_of), ("the settings", settings_of))
        if shown < min(number, runs if what != "all" else number)
    ]
    html = made.get_template("report.html").render(
        view=msgspec.structs.replace(report, runs=report.runs[:runs]),
        now=report.made_at,
        css=Markup("\n".join((STATIC / name).read_text(encoding="utf-8") for name in _STYLES)),  # noqa: S704  our own
        charts_of=charts_of,
        settings_of=settings_of,
        left_out=left_out,
    )
    return ReportPage(html=html.encode(), left_out=left_out)
