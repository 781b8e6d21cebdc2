"""One store of compiled statements for all engines of the process.

SQLAlchemy keeps what it has compiled apart for each engine, and for each instance of a dialect. A ledger has two
engines, and a process may open several ledgers, one after the other or at once; each would compile the same statements
anew, a millisecond for each.
"""

from typing import Any, Final

from sqlalchemy.dialects import registry
from sqlalchemy.dialects.sqlite.aiosqlite import SQLiteDialect_aiosqlite

from orchestrator.ledger.database import OfOneKind

URL: Final = "sqlite+ledger://"

COMPILED: Final[dict[Any, Any]] = {}
"""For the engine's option `compiled_cache`. It grows with the statements that are written down in `ledger/`."""


class Dialect(OfOneKind, SQLiteDialect_aiosqlite):
    """The dialect of the ledger's engines. All are made alike, so what one has compiled serves every other."""

    supports_statement_cache = True


registry.register("sqlite.ledger", __name__, Dialect.__name__)
