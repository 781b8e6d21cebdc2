"""How often a process looks at what is around it, writes its heartbeat, and takes samples."""

from typing import Final

from orchestrator.core.samples.sample_spacing import SAMPLE_S

LOOK_S: Final = 2.0
"""How soon it is said that a limit is used otherwise, a duty fails or a job is stuck."""

ASK_EVERY_S: Final = 0.25
"""A command takes effect within this time, and that of reading its row."""

SAMPLE_EVERY_S: Final = float(SAMPLE_S)
"""How often how all stands is written down for charts and metrics."""
