"""What commands about schedules are told, declared in the same way as the settings of runs."""

from typing import Final

from orchestrator.settings.setting import Setting, parsed

NOTE: Final = Setting("note", parsed("T", str), "Why, for whoever looks: it must be said.")
"""With which a schedule is paused."""
