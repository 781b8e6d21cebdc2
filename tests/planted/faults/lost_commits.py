"""A server that has lost what it had confirmed: who finds it, who is told, and who goes on nevertheless."""

from tests.planted.faults.fault import Fault

DATABASE = "orchestrator/ledger/postgres/database.py"
IDENTITY = "orchestrator/ledger/postgres/identity/lost_commits.py"
HERE = "tests/ledger/processes/test_lost_commits.py::"
WRITTEN = "tests/ledger/postgres/test_lost_lines.py::"

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="a server that lacks what it had confirmed is written on",
        path=f"{DATABASE}::ServerDatabase._begin",
        old="== _COUNTED",
        new="is not None",
        tests=(f"{WRITTEN}test_a_server_that_lacks_what_it_had_confirmed_ends_the_work",),
    ),
    Fault(
        name="who finds as it writes what a server has lost ends alone",
        path=f"{DATABASE}::ServerDatabase.writing",
        old="await self._note_loss()",
        new="pass",
        tests=(f"{WRITTEN}test_a_server_that_lacks_what_it_had_confirmed_ends_the_work",),
    ),
    Fault(
        name="who ends does not look whether what it wrote is there still",
        path=f"{DATABASE}::ServerDatabase._leave",
        old="await self._note_loss()",
        new="pass",
        tests=(f"{WRITTEN}test_who_ends_tells_the_others_what_the_server_has_lost",),
    ),
    Fault(
        name="a process whose beats were forgotten beats on",
        path="orchestrator/ledger/processes/membership.py::Membership.beat",
        old="if beat is not None and beat <= self._latest:",
        new="if False:",
        tests=(f"{HERE}test_whose_beats_were_forgotten_is_dead_for_good",),
    ),
    Fault(
        name="a beat that has gone back is one as good as another",
        path="orchestrator/ledger/processes/lookout.py::Lookout._has_gone_back",
        old="before.beat > process.beat",
        new="False",
        tests=(f"{HERE}test_who_joined_in_what_was_lost_finds_it_of_one_that_beats_no_more",),
    ),
    Fault(
        name="where commits were lost whoever works goes on",
        path=f"{IDENTITY}::note_loss",
        old="(_NOTE, _LEAVE_ALL, _REMOVE_ALL)",
        new="(_NOTE,)",
        tests=(f"{HERE}test_once_it_is_noted_all_are_dead_and_nobody_joins_before_it_is_accepted",),
    ),
    Fault(
        name="where commits were lost another process begins, and sends again what was sent",
        path=f"{IDENTITY}::IS_WHOLE",
        old="WHERE lost_commits = 0",
        new="WHERE lost_commits >= 0",
        tests=(f"{HERE}test_once_it_is_noted_all_are_dead_and_nobody_joins_before_it_is_accepted",),
    ),
)
