"""What a program's user is told: by the log `orchestrator`, of which warnings are seen where nobody has set it up."""

import logging
from typing import Final

from orchestrator.engine.runtime.console import SilentConsole
from orchestrator.errors import keyword_name, with_settings_named

log: Final = logging.getLogger("orchestrator")


class LogConsole(SilentConsole):
    """Says everything by the log, and shows no progress."""

    def info(self, line: str) -> None:
        """A line of information."""
        log.info("%s", with_settings_named(line, keyword_name))

    def warn(self, line: str) -> None:
        """A warning."""
        log.warning("%s", with_settings_named(line, keyword_name))
