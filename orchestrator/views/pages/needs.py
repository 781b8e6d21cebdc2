"""What needs a person, as people and programs are shown it."""

from orchestrator.core.diagnosis.need_facts import Need


class NeedLine(Need, frozen=True, kw_only=True):
    """A need, with where it is shown in full, and where its cure is asked for: paths from the root of the pages."""

    path: str
    cure_path: str | None = None
