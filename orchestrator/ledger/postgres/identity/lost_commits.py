"""That the server of a ledger has lost what it had confirmed: a standby was promoted that lagged behind, or a backup
was restored. Whoever finds it notes it in the ledger. From then on nobody owns anything, and nobody may join those who
do, until somebody has looked at what is missing and accepts it.
"""

from typing import Final

from orchestrator.errors import LostCommitsError
from orchestrator.ledger.postgres.connection import Driver
from orchestrator.ledger.postgres.server_clock import NOW_US

IS_WHOLE: Final = "SELECT 1 FROM identity WHERE lost_commits = 0 FOR SHARE"
"""Finds a row as long as no loss is noted, and keeps it so until the transaction has ended."""

_NOTE: Final = f"UPDATE identity SET lost_commits = {NOW_US} WHERE lost_commits = 0"  # noqa: S608  texts of ours
_LEAVE_ALL: Final = f"UPDATE leases SET owner = NULL, left_at = {NOW_US} WHERE owner IS NOT NULL"  # noqa: S608
_REMOVE_ALL: Final = "DELETE FROM processes"
_NOTED: Final = "SELECT lost_commits > 0 FROM identity"
_ACCEPT: Final = "UPDATE identity SET lost_commits = 0 WHERE lost_commits > 0"
_ACCEPTED: Final = "UPDATE 1"


async def note_loss(driver: Driver) -> None:
    """Notes it, and ends the right of every process to what it owns. Raises what the driver does."""
    async with driver.transaction():
        for statement in (_NOTE, _LEAVE_ALL, _REMOVE_ALL):
            await driver.execute(statement)


async def is_loss_noted(driver: Driver) -> bool:
    """Whether nobody may join. Raises what the driver does."""
    return bool(await driver.fetchval(_NOTED))


async def accept_loss(driver: Driver) -> bool:
    """Whether a loss was noted, which counts no more from now on. Raises what the driver does."""
    return bool(await driver.execute(_ACCEPT) == _ACCEPTED)


def lost_commits(name: str) -> LostCommitsError:
    """What is said of the ledger called `name` to whoever is to work on it."""
    return LostCommitsError(
        f"{name}: the server has lost what it had confirmed: was a backup restored, or a standby promoted that lagged"
        " behind? Nothing is sent, for what was sent meanwhile would be sent again; give the server its latest state"
        " back, or look at what its runs have, and begin to serve it with <setting accept-lost-commits>, to go on from"
        " that"
    )
