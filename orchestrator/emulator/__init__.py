"""A stand-in for the service, written from its contract a second time.

Nothing here knows how the rest of the program reads that contract (an import rule keeps it so): one misreading cannot
hide on both sides. The heart is pure (`world`, `gate` and what they are made of: `now` is an argument, chance comes
from a seeded generator); `workers`, `webhooks`, `routes` and `listen` join it to a clock, to handlers and to sockets.

For tests: `async with emulator.serve(handler) as service`, and the fixture in `orchestrator.emulator.pytest_fixture`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orchestrator.emulator.serving import ServedEmulator, serve
    from orchestrator.emulator.workers.handlers import progress_update

__all__ = ["ServedEmulator", "progress_update", "serve"]

_HOME = {"ServedEmulator": "serving", "progress_update": "workers.handlers", "serve": "serving"}


def __getattr__(name: str) -> Any:
    """Imports a public name when it is first used: whoever wants one part does not pay for the web server."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415

    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
