"""That a run is a batch which a program has posted to the Batch API, as its status tells."""

import msgspec


class PostedStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Whose batch it is, and how that stands."""

    by: str | None
    """The name of the key; None where there are no keys."""

    model: str | None
    state: str
    """As the program sees it."""

    @property
    def sentence(self) -> str:
        """All of it for people."""
        return f"{self.by or 'a program'}, for {self.model}: {self.state}"
