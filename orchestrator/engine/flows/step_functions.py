"""Whether the functions are there that make rows of what one stage hands over to the next."""

from pathlib import Path

from orchestrator.user_code import load_function


def check_step(reference: str, folder: Path) -> None:
    """Raises `UsageError` where there is no function behind `FILE.py:FUNCTION`, whose path counts from `folder`.

    The file is run as for a `local:` endpoint: its folder can be imported from, and what stands under `__main__` is not
    run.
    """
    load_function(str(folder / reference), "step")
