"""Whether a batch is stuck: nothing has come of it for longer than a night, or than of those after it.

The service promises no time at which it begins with a batch, and works on it when it likes, so that to wait is no
trouble. It tells nobody of one that never goes on.
"""

from typing import Final

from orchestrator.core.batches.batch_record import BatchStage
from orchestrator.core.text.wording import counted
from orchestrator.units import HOUR_US

NIGHT_US: Final = 12 * HOUR_US
"""For so long nothing need come of a batch."""

OVERTAKEN_US: Final = 2 * HOUR_US
"""For so long not, where all came of one that was finalized later."""

AT_SERVICE: Final = frozenset({BatchStage.FINALIZING, BatchStage.RUNNING, BatchStage.CANCELLING})
"""The stages in which the service is to do something."""


def is_stuck(stage: BatchStage, quiet_us: int, *, is_overtaken: bool) -> bool:
    """Whether a batch in that `stage`, of which nothing has come for so long, will not go on by itself."""
    return stage in AT_SERVICE and quiet_us >= (OVERTAKEN_US if is_overtaken else NIGHT_US)


def stuck_sentence(batch: str | None, rows: int) -> str:
    """What is said of one that is stuck, which has so many rows."""
    return f"{batch or 'a batch'} with {counted(rows, 'row')} is stuck at the service: nothing comes of it any more"
