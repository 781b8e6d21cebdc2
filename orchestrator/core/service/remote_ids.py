"""What the service calls which job: an id that another job has already tells nothing.

Of two jobs of one id, whatever is told of it may be about either. So the id stays with the job that had it first, and
the other one has none. Once that was found, an id is no proof any more, here as anywhere: the token of a webhook goes
before it, and moves the id to the job that it really is of.
"""

from typing import Final

KEPT_MAX: Final = 100_000
"""So many of the latest ids are remembered for certain, and up to twice as many: at the contract's rate, those of the
last half an hour, as long as the service keeps a result.
"""


class RemoteIds:
    """The ids of the jobs of one endpoint, as short-lived as the results that they lead to."""

    def __init__(self, kept_max: int = KEPT_MAX) -> None:
        self._kept_max = kept_max
        self._owners: dict[int, int] = {}
        self._former: dict[int, int] = {}
        self._doubted: set[int] = set()
        self.are_repeated = False
        """Whether the service was found to give one id to two jobs."""

    def owner(self, remote_id: str) -> int | None:
        """The job that has this id; None where nobody has it, or had it long ago."""
        key = hash(remote_id)  # of the text nothing else is needed, and it would take three times the memory
        found = self._owners.get(key)
        return self._former.get(key) if found is None else found

    def give(self, remote_id: str, job: int) -> bool:
        """`job` has this id from now on; False, and it has not, where another job has it."""
        owner = self.owner(remote_id)
        if owner is None:
            self.move(remote_id, job)
        elif owner != job:
            self.are_repeated = True
        return owner in (None, job)

    def is_doubted(self, remote_id: str) -> bool:
        """Whether the webhook of a job whose id was never told bore this one, which another job has."""
        return hash(remote_id) in self._doubted

    def contradict(self, remote_id: str, job: int, known_as: str | None) -> bool:
        """Whether `remote_id`, in a webhook of `job`, is not its own. Once ids are repeated, no id contradicts a token.

        `known_as` is the id of its submission; None where that was never told. Then the webhook may be right, and the
        id is in doubt. If the job that has it is told by its own webhook of an id that nobody has, ids are repeated.
        """
        if self.are_repeated:
            return False
        owner = self.owner(remote_id)
        if known_as is None and owner not in (None, job):
            if len(self._doubted) >= self._kept_max:
                self._doubted.clear()
            self._doubted.add(hash(remote_id))
        if known_as is None or known_as == remote_id:
            return owner not in (None, job)
        self.are_repeated = owner is None and self.is_doubted(known_as)
        return not self.are_repeated

    def move(self, remote_id: str, job: int) -> None:
        """`job` has this id from now on, whoever had it before."""
        if self.owner(remote_id) == job:
            return
        if len(self._owners) >= self._kept_max:
            self._former, self._owners = self._owners, {}
        self._owners[hash(remote_id)] = job
