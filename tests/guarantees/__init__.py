"""What the program promises, the tests that show it, and the figures measured; together they write docs/why/guarantees.md."""

from tests.guarantees.recording import record

__all__ = ["record"]
