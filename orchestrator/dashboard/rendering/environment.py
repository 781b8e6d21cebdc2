"""Templates, and what they may use."""

import hashlib
from collections.abc import Sequence
from datetime import tzinfo
from functools import cache
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from orchestrator.dashboard.charts.chart_functions import chart_functions
from orchestrator.dashboard.rendering.action_button import action
from orchestrator.dashboard.rendering.filters import filters, printed

ROOM: Final = Path(__file__).parent.parent
TEMPLATES: Final = ROOM / "templates"
STATIC: Final = ROOM / "static"

DIGEST_CHARS: Final = 12


def environment(ledger: Path, zone: tzinfo, templates: Sequence[Path] = (TEMPLATES,)) -> Environment:
    """What templates are read and rendered by. Whatever a template names has to be there."""
    made = Environment(
        loader=FileSystemLoader(templates),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=printed,
        trim_blocks=False,  # a new line between a block and what follows is a space that people see
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters.update(filters(ledger, zone))
    made.globals.update({**chart_functions(zone), "action": action})
    return made


@cache
def static_digest(name: str) -> str:
    """What changes when the file does: with it in its address a browser may keep the file."""
    return hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:DIGEST_CHARS]


class Urls:
    """Makes addresses of paths: `prefix` is what a proxy has put before them."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix

    def url(self, path: str, **query: object) -> str:
        """The address of `path`, with what of the query is not None."""
        given = urlencode([(name, value) for name, value in query.items() if value is not None])
        return self._prefix + path + (f"?{given}" if given else "")

    def static(self, name: str) -> str:
        """The address of a file of ours."""
        return self.url(f"/static/{name}", v=static_digest(name))
