"""How states look: each has a word, a sign and a class of the stylesheet (colour), so that nothing is said by colour
alone.
"""

from collections.abc import Mapping
from typing import Final

_LOOKS: Final[Mapping[str, tuple[str, ...]]] = {
    "succeeded": ("succeeded", "done", "finished", "delivered", "sent", "made", "ok"),
    "running": ("running", "outstanding", "submitting", "sending", "started", "begun", "collecting"),
    "held": ("held", "paused", "stopped", "stalled"),
    "partial": ("partial", "late", "missed"),
    "failed": ("failed", "lost", "expired", "refused", "overdue"),
    "uncertain": ("uncertain",),
    "queued": ("queued", "waiting", "skipped", "unknown"),
    "cancelled": ("cancelled", "replaced"),
}
_LOOK_OF: Final = {state: look for look, states in _LOOKS.items() for state in states}

_SIGNS: Final = {
    "succeeded": "✓",
    "running": "▶",
    "held": "‖",
    "partial": "◐",
    "failed": "✕",
    "uncertain": "?",
    "queued": "·",
    "cancelled": "–",
}

_WORDS: Final = {"outstanding": "at the service", "submitting": "being sent"}


def look_of(state: str) -> str:
    """The class of the stylesheet for a state of a job, run or flow; that of what waits where it is not known."""
    return _LOOK_OF.get(state, "queued")


def sign_of(state: str) -> str:
    """One character."""
    return _SIGNS[look_of(state)]


def word_of(state: str) -> str:
    """What a state, or another code, is called."""
    return _WORDS.get(state, state.replace("_", " ").replace("-", " "))
