"""What is asked of databases."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import event
from sqlalchemy.engine import Engine


@contextmanager
def statements() -> Iterator[list[str]]:
    """What is asked of any database meanwhile."""
    asked: list[str] = []

    def note(_connection: object, _cursor: object, sql: str, *_: object) -> None:
        asked.append(sql)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield asked
    finally:
        event.remove(Engine, "before_cursor_execute", note)
