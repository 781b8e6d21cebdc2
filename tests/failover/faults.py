"""All that can happen, how often it does, and how long nothing may be sent then."""

from collections.abc import Callable, Mapping
from typing import Final

from tests.failover.fault import HANDED_OVER_S_MAX, SILENCE_S_MAX, Act, Fault
from tests.failover.line_faults import at_commit, cut, delayed, held, refused, swallowed
from tests.failover.process_faults import (
    HOUR_S,
    asked,
    clock_off,
    clock_steps,
    killed,
    stopped,
    stopped_in_transaction,
    without_power,
)
from tests.failover.server_faults import (
    client_asleep,
    long_transaction,
    promoted,
    server_away,
    server_crowded,
    server_full,
    server_read_only,
)
from tests.postgres.proxy import AtCommit

PEOPLE_S: Final = 90.0
"""So long people take to look, and to decide."""

ANSWERED_S: Final = 20.0
"""So long an answer of the server is waited for."""

NO_ANSWER_S: Final = 30.0
"""So long an answer of the service is waited for."""

FLIGHT_S: Final = 10.0
"""So long requests in flight may take, where their process hands over."""


def _for_all(lasts_s: float, does: Callable[[float], Act], *, says: str = "", weight: float = 1.0) -> Fault:
    """Of that nobody is spared, so nothing is sent for as long as it lasts."""
    return Fault(does=does(lasts_s), silence_s_max=lasts_s + SILENCE_S_MAX, says=says, weight=weight)


def _unanswered(fate: AtCommit) -> Fault:
    """The server has not answered one commit, and its line seems to be there."""
    return Fault(does=at_commit(fate, 1), silence_s_max=ANSWERED_S + SILENCE_S_MAX, lasts_s=ANSWERED_S)


FAULTS: Final[Mapping[str, Fault]] = {
    "killed": Fault(does=killed, is_replaced=True, weight=3),
    "power-cut": Fault(does=without_power, is_replaced=True, weight=3),
    "asked": Fault(does=asked, is_replaced=True, silence_s_max=HANDED_OVER_S_MAX, weight=3),
    "stopped:2": Fault(does=stopped(2), weight=2),
    "stopped:8": Fault(does=stopped(8), is_replaced=True, weight=3, lasts_s=8),
    "stopped:30": Fault(does=stopped(30), is_replaced=True, lasts_s=30),
    "half-a-message:8": Fault(does=stopped_in_transaction(8, at_commit=False), is_replaced=True, weight=2, lasts_s=8),
    "half-a-message:30": Fault(does=stopped_in_transaction(30, at_commit=False), is_replaced=True, lasts_s=30),
    "with-locks:2": Fault(does=stopped_in_transaction(2, at_commit=True), weight=2),
    "with-locks:8": Fault(does=stopped_in_transaction(8, at_commit=True), is_replaced=True, weight=2, lasts_s=8),
    "cut": Fault(does=cut(reset=False), weight=2),
    "reset": Fault(does=cut(reset=True), weight=2),
    "refused:3": Fault(does=refused(3), weight=2),
    "refused:20": Fault(does=refused(20), is_replaced=True, lasts_s=20),
    "delayed:10": Fault(does=delayed(10), lasts_s=10),
    "held:3": Fault(does=held(3), weight=2),
    "held:12": Fault(does=held(12), is_replaced=True, lasts_s=12),
    "no-ledger:20": Fault(does=swallowed(20, ledger=True, service=False), is_replaced=True, lasts_s=20),
    # It waits for answers for as long as usual, and may hand over by then.
    "no-service:20": Fault(
        does=swallowed(20, ledger=False, service=True),
        stands_back=True,
        silence_s_max=NO_ANSWER_S + SILENCE_S_MAX,
        lasts_s=NO_ANSWER_S,
    ),
    "no-service:60": Fault(
        does=swallowed(60, ledger=False, service=True),
        is_replaced=True,
        stands_back=True,
        silence_s_max=NO_ANSWER_S + FLIGHT_S + SILENCE_S_MAX,
        lasts_s=60,
    ),
    "isolated:20": Fault(does=swallowed(20, ledger=True, service=True), is_replaced=True, lasts_s=20),
    "commit-lost": Fault(does=at_commit(AtCommit.LOST, 3)),
    "commit-unanswered": Fault(does=at_commit(AtCommit.UNANSWERED, 3)),
    "commit-late": Fault(does=at_commit(AtCommit.LATE, 3)),
    # The line is found to be dead once an answer has not come for long, while beats go on over another one.
    "commit-swallowed": _unanswered(AtCommit.SWALLOWED),
    "answer-swallowed": _unanswered(AtCommit.ANSWER_SWALLOWED),
    "clock:+1h": Fault(does=clock_off(HOUR_S), is_replaced=True),
    "clock:-1h": Fault(does=clock_off(-HOUR_S), is_replaced=True),
    "clock-steps": Fault(does=clock_steps),
    "restart": _for_all(0, server_away, weight=2),
    "away:3": _for_all(3, server_away, weight=2),
    "away:60": _for_all(60, server_away, weight=0.3),
    "full:10": _for_all(10, server_full, says="No space left on device"),
    "read-only:10": _for_all(10, server_read_only, says="in a read-only transaction"),
    "crowded:10": Fault(does=server_crowded(10), is_replaced=True, says="too many clients already", lasts_s=10),
    "promoted": Fault(does=promoted, silence_s_max=PEOPLE_S, weight=0.5),
    "stranger:20": Fault(does=long_transaction(20), silence_s_max=HANDED_OVER_S_MAX, lasts_s=20),
    "asleep:30": Fault(does=client_asleep(30), lasts_s=30),
}
