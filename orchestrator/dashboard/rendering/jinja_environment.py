"""The Jinja templates of pages, and what they may use."""

import hashlib
from collections.abc import Sequence
from datetime import tzinfo
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Final
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from jinja2.bccache import Bucket, BytecodeCache

from orchestrator.dashboard.charts.chart_functions import chart_functions
from orchestrator.dashboard.rendering.action_button import action
from orchestrator.dashboard.rendering.template_filters import filters, printed
from orchestrator.settings.addresses.ledger_address import LedgerAddress

ROOM: Final = Path(__file__).parent.parent
TEMPLATES: Final = ROOM / "templates"
STATIC: Final = ROOM / "static"

DIGEST_CHARS: Final = 12


class CompiledTemplates(BytecodeCache):
    """What templates were compiled to, for all dashboards of a process: compiling takes longer than rendering."""

    def __init__(self) -> None:
        self._codes: dict[tuple[str, str], CodeType] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        """Gives the bucket its code, where its template was compiled as it is now."""
        bucket.code = self._codes.get((bucket.key, bucket.checksum))

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keeps the code of the bucket, which has some."""
        assert bucket.code is not None
        self._codes[bucket.key, bucket.checksum] = bucket.code


_COMPILED: Final = CompiledTemplates()


def environment(ledger: LedgerAddress, zone: tzinfo, templates: Sequence[Path] = (TEMPLATES,)) -> Environment:
    """What templates are read and rendered by. Whatever a template names has to be there."""
    made = Environment(
        loader=FileSystemLoader(templates),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=printed,
        trim_blocks=False,  # a new line between a block and what follows is a space that people see
        lstrip_blocks=True,
        auto_reload=False,
        bytecode_cache=_COMPILED,
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
