"""The functions of the user's that make rows of what one stage hands over to the next."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from orchestrator.user_code import load_function

Step = Callable[[Any], Any]
"""Takes what is handed over; returns None for nothing, a dict for one row, or an iterable of dicts for several."""


def step_function(reference: str, folder: Path) -> Step:
    """The function behind `FILE.py:FUNCTION`, whose path counts from `folder`. Raises `UsageError`.

    The file is run as for a `local:` endpoint: its folder can be imported from, and what stands under `__main__` is not
    run.
    """
    return load_function(str(folder / reference), "step")
