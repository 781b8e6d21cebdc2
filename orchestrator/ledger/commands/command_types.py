"""Types of commands: what can be asked of whoever works on the ledger, with which arguments, and what comes of it."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

from orchestrator.core.limits.rate_pacer import Limit, Operation
from orchestrator.settings.command_requests import RetryChoice
from orchestrator.settings.words_and_defaults import Pinned

NO_RUN: Final = "there is no such run any more"


NOT_TAKEN_IN: Final = "it is not taken in yet; ask again once its input was read"


NAME_TAKEN: Final = "there is a run called {} already; choose another name"


JOBS_THERE: Final = "jobs of it are at the service, and their results would be lost"


PODS_THERE: Final = "a pod of it may still be paid"


MAY_BE_TAKEN: Final = "{} may have taken a job of it"


class ReplyCode(StrEnum):
    """What came of a command, where whoever asked goes on by it. The values stand in ledgers."""

    HAD_ENDED = "had_ended"
    """The run had ended, so there was nothing to be done."""

    ASKED_ANOTHER = "asked_another"
    """It concerned another process alone, which has ended."""

    JOBS_AT_SERVICE = "jobs_at_service"
    """Jobs of the run are at the service, so that it cannot be deleted."""

    PODS_PAID = "pods_paid"
    """Pods of the run may be paid, so that it cannot be deleted."""


class Action(StrEnum):
    """What can be asked."""

    PAUSE = "pause"
    CONTINUE = "continue"
    CANCEL = "cancel"
    LIMITS_SET = "limits-set"
    LIMITS_RESET = "limits-reset"
    PRIORITY = "priority"
    BRAKES = "brakes"
    """To change the brakes of a run."""

    RETRY = "retry"
    """To queue failed and cancelled jobs again."""

    RECHECK = "recheck"
    """To judge outputs anew that were collected."""

    RESEND = "resend"
    """To send anew what is outstanding, since the service has it no more."""

    CANCEL_JOBS = "cancel-jobs"
    """To cancel some jobs of a run."""

    RENAME = "rename"
    DELETE = "delete"
    """To take back that a run was taken in; who asked removes what is left of it."""

    REBIND = "rebind"
    """To give a run another endpoint, where the former never took a job of it."""

    SERVE = "serve"
    """To serve a run that another process has taken in."""

    TICK = "tick"
    """To look at the schedules, and to carry out what is due."""

    RELEASE = "release"
    """To send no more of a run until somebody asks for that again."""

    STOP = "stop"
    """To end, in order: for whoever works on the ledger, and for those that wait to take its place."""

    STOP_PROCESS = "stop-process"
    """The same, for one of several processes."""


ENDS: Final = frozenset({Action.STOP, Action.STOP_PROCESS})
"""What asks for the end of processes."""

QUEUES_AGAIN: Final = frozenset({Action.RETRY, Action.RECHECK})
"""What may bring jobs of a run back that have their outcomes."""


class Command(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """One command. Times are microseconds UTC."""

    id: int
    asked_at: int
    asked_by: str
    action: str
    """An `Action`, or what a newer program knows."""

    run: int | None
    endpoint: int | None
    argument: bytes
    """JSON; what it holds depends on the action."""

    taken_at: int | None = None
    done_at: int | None = None
    outcome: str | None = None
    """What came of it, once it is done."""

    is_refused: bool = False
    progress: int = 0
    """How many jobs it has changed so far, whichever process did."""

    code: ReplyCode | None = None
    """Which outcome it is, where whoever asked has to know it."""

    at_endpoint: int | None = None
    """Where its run is, or the endpoint that it is about; None where it is about none, or that is no run any more."""

    is_left: bool = False
    """Whether none of several processes has that endpoint."""

    def ends(self, process: int) -> bool:
        """Whether it asks for the end of the process of that number, among others or alone."""
        if self.action != Action.STOP_PROCESS:
            return self.action == Action.STOP
        try:
            return msgspec.json.decode(self.argument, type=StoppedProcess).process == process
        except msgspec.MsgspecError:
            return False


class AskedCommands(msgspec.Struct, frozen=True):
    """Those that were asked by some time. On a server one may come later that has a smaller number than others of them:
    it got that before they did, and was committed after them.
    """

    before: int = 0
    """All up to this number are among them."""

    later: frozenset[int] = frozenset()
    """The others."""

    def has(self, number: int) -> bool:
        """Whether the command of that number is one of them."""
        return number <= self.before or number in self.later


class NewLimits(msgspec.Struct, frozen=True):
    """The argument of LIMITS_SET."""

    limits: Mapping[Operation, Limit]


class ResetLimits(msgspec.Struct, frozen=True):
    """The argument of LIMITS_RESET."""

    operations: tuple[Operation, ...]


class NewPriority(msgspec.Struct, frozen=True):
    """The argument of PRIORITY."""

    priority: int


class NewBrakes(msgspec.Struct, frozen=True):
    """The argument of BRAKES: the settings that are changed, as texts by key."""

    settings: Mapping[str, str]


class NewValidator(msgspec.Struct, frozen=True):
    """The argument of RECHECK: what the run takes for a result from now on."""

    schema: Pinned | None
    check: Pinned | None
    output_required: bool


class CancelledJobs(msgspec.Struct, frozen=True):
    """The argument of CANCEL_JOBS: which of the unfinished jobs, as a filter."""

    where: str


class CancelledRun(msgspec.Struct, frozen=True):
    """The argument of CANCEL."""

    grace_us: int = 0
    """So long each of its resumable jobs at the service may take to its next checkpoint."""


class NewName(msgspec.Struct, frozen=True):
    """The argument of RENAME."""

    name: str


class NewEndpoint(msgspec.Struct, frozen=True):
    """The argument of REBIND."""

    service_url: str
    endpoint: str


class StoppedProcess(msgspec.Struct, frozen=True):
    """The argument of STOP_PROCESS."""

    process: int
    """Its number among those of the ledger."""


Argument = (
    NewLimits
    | ResetLimits
    | NewPriority
    | NewBrakes
    | NewValidator
    | RetryChoice
    | CancelledRun
    | CancelledJobs
    | NewName
    | NewEndpoint
    | StoppedProcess
)


class Reply(msgspec.Struct, frozen=True):
    """What came of a command: a sentence, and a code where whoever asked goes on by it."""

    text: str
    is_refused: bool = False
    code: ReplyCode | None = None


ENDED: Final = Reply("all of its jobs have their outcomes already", code=ReplyCode.HAD_ENDED)


OF_ANOTHER: Final = Reply("the process that this was asked of has ended", is_refused=True, code=ReplyCode.ASKED_ANOTHER)


LENGTHY: Final = frozenset({Action.RETRY, Action.RECHECK, Action.RESEND, Action.CANCEL_JOBS, Action.REBIND})
"""What goes through many jobs, or waits for requests under way: seconds, or more. Nothing else waits for it."""
