"""Every form that acts, by its path."""

from typing import Final

from orchestrator.dashboard.page import FormRoute

ROUTES: Final[tuple[FormRoute, ...]] = ()
