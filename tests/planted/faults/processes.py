"""Crashes, signals, locks, and the files beside the ledger."""

from tests.planted.faults.fault import Fault

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="a submission is marked only once its answer is there",
        path="orchestrator/engine/sending/dispatcher.py",
        old="        return await self._endpoint.api.run(permit, body, leaving=leaving)\n",
        new="        answer = await self._endpoint.api.run(permit, body)\n        leaving()\n        return answer\n",
        tests=("tests/engine/test_sent_or_not.py::test_what_was_claimed_and_never_left_is_queued_again_at_no_cost",),
        worlds=("commits", 8, 32),
    ),
    Fault(
        name="a submission is marked before there is a connection",
        path="orchestrator/client/backends.py",
        old="        upload = Upload(request.body, patience, request.leaving)\n",
        new=(
            "        upload = Upload(request.body, patience, None)\n"
            "        if request.leaving is not None:\n"
            "            request.leaving()\n"
        ),
        tests=("tests/client/test_large_bodies.py::test_a_request_leaves_with_its_last_bytes",),
    ),
    Fault(
        name="a large body counts as sent from its beginning",
        path="orchestrator/client/backends.py",
        old="            if self._handed == self.size and self._leaving is not None:\n",
        new="            if start == 0 and self._leaving is not None:\n",
        tests=("tests/client/test_large_bodies.py::test_a_request_leaves_with_its_last_bytes",),
    ),
    Fault(
        name="the marks are not looked at after a crash",
        path="orchestrator/engine/upkeep/janitor.py",
        old="    if never_left:\n",
        new="    if False:\n",
        tests=("tests/engine/test_sent_or_not.py::test_what_was_claimed_and_never_left_is_queued_again_at_no_cost",),
    ),
    Fault(
        name="marks are believed after the machine was started again",
        path="orchestrator/ledger/sqlite/marks.py",
        old="self.boot.encode()[:40]",
        new='b""',
        tests=(
            "tests/ledger/sqlite/test_marks.py::test_after_a_crash_of_the_machine_nothing_is_known_of_what_was_claimed",
            "tests/engine/test_sent_or_not.py::test_where_the_marks_cannot_be_believed_everything_claimed_is_uncertain",
        ),
    ),
    Fault(
        name="torn marks are believed",
        path="orchestrator/ledger/sqlite/marks.py",
        old="        return marks if marks._is_whole(latest) else None\n",
        new="        return marks\n",
        tests=("tests/ledger/sqlite/test_marks.py::test_a_file_that_is_missing_or_torn_is_not_believed",),
    ),
    Fault(
        name="a new file of marks has no floor",
        path="orchestrator/ledger/sqlite/marks.py",
        old="number=number), floor=latest)\n",
        new="number=number), floor=0)\n",
        tests=(
            "tests/engine/test_sent_or_not.py::test_where_the_marks_cannot_be_believed_everything_claimed_is_uncertain",
        ),
    ),
    Fault(
        name="a mark that is overwritten is forgotten",
        path="orchestrator/ledger/sqlite/marks.py",
        old="            words[_FLOOR] = overwritten\n",
        new="            pass\n",
        tests=(
            "tests/ledger/sqlite/test_marks.py::test_a_mark_that_is_overwritten_raises_the_floor_to_its_submission",
        ),
    ),
    Fault(
        name="our own crashes use up a job's uncertain tries",
        path="orchestrator/engine/upkeep/janitor.py",
        old="    return transitions.left_unanswered(\n        job, settle_at",
        new="    return transitions.unanswered(\n        job, settle_at",
        tests=("tests/engine/test_sent_or_not.py::test_being_caught_by_our_own_crashes_costs_none_of_the_tries",),
    ),
    Fault(
        name="a ledger is worked on under two names",
        path="orchestrator/ledger/sqlite/lock.py",
        old="    if names > 1 and",
        new="    if names > 2 and",
        tests=(
            "tests/system/test_two_processes.py::test_a_ledger_under_a_second_name_is_refused_by_whoever_comes_second",
            "tests/ledger/sqlite/test_migrations.py::test_a_ledger_with_a_second_name_is_refused_even_an_empty_one",
        ),
    ),
    Fault(
        name="a ledger that is deleted under a run goes unnoticed",
        path="orchestrator/ledger/sqlite/place.py",
        old="            if _identity(self._file(suffix)) != identity:\n",
        new="            if False:\n",
        tests=(
            "tests/engine/test_misplaced.py",
            "tests/system/test_misplaced.py::test_without_its_lock_a_run_ends_and_its_ledger_is_as_it_was",
        ),
    ),
    Fault(
        name="only the name of a ledger is looked for, not the file",
        path="orchestrator/ledger/sqlite/place.py",
        old="            if _identity(self._file(suffix)) != identity:\n",
        new="            if _identity(self._file(suffix)) is None:\n",
        tests=("tests/system/test_misplaced.py::test_a_ledger_that_is_lost_under_a_run_is_noticed_and_saved",),
    ),
    Fault(
        name="a run whose ledger is gone goes on sending",
        path="orchestrator/engine/engine.py",
        old="        self.taking.start_soon(self._stop_when_lost)\n",
        new="",
        tests=("tests/system/test_misplaced.py::test_without_its_lock_a_run_ends_and_its_ledger_is_as_it_was",),
    ),
    Fault(
        name="a lost terminal kills",
        path="orchestrator/cli/signals.py",
        old="(*asked, signal.SIGHUP)",
        new="asked",
        tests=(
            "tests/system/test_interruption.py::test_a_lost_terminal_stops_in_order_although_nothing_can_be_said_any_more",
            "tests/system/test_interruption.py::test_a_lost_terminal_is_not_a_second_signal",
        ),
    ),
    Fault(
        name="a display that nobody can see any more stops the run",
        path="orchestrator/cli/live.py",
        old="            self._console.print(Text(line), soft_wrap=True)\n",
        new="            pass\n        self._console.print(Text(line), soft_wrap=True)\n",
        tests=(
            "tests/system/test_interruption.py::test_a_lost_terminal_stops_in_order_although_nothing_can_be_said_any_more",
        ),
    ),
    Fault(
        name="nohup is not heeded",
        path="orchestrator/cli/signals.py",
        old="is signal.SIG_IGN",
        new="is None",
        tests=("tests/system/test_interruption.py::test_under_nohup_a_lost_terminal_is_nothing",),
    ),
    Fault(
        name="raised limits do not mind how many files may be open",
        path="orchestrator/engine/services.py",
        old="        limits = within_connections(self._connection.limits, self.connections)\n",
        new="        limits = dict(self._connection.limits)\n",
        tests=("tests/system/test_few_files.py::test_raised_limits_are_bounded_by_the_files_that_may_be_open",),
    ),
    Fault(
        name="the limit of open files is left as it is",
        path="orchestrator/client/descriptors.py",
        old="    if soft >= reachable:\n",
        new="    if soft:\n",
        tests=(
            "tests/system/test_few_files.py::test_the_limit_of_open_files_is_raised_without_a_listener_too",
            "tests/client/test_descriptors.py::test_the_soft_limit_is_raised_as_far_as_needed_and_allowed",
        ),
    ),
    Fault(
        name="readers of the ledger are opened when they are needed",
        path="orchestrator/ledger/ledger.py",
        old="        await self._database.open_readers()\n",
        new="",
        tests=("tests/ledger/sqlite/test_storage_errors.py::test_a_ledger_has_all_its_connections_from_the_start",),
    ),
    Fault(
        name="a command is carried out by each who has read it",
        path="orchestrator/ledger/commands.py",
        old='            if await self._acknowledge(connection, command.id, Reply("")):\n',
        new='            if await self._acknowledge(connection, command.id, Reply("")) or True:\n',
        tests=("tests/conformance/test_commands.py::test_what_is_acknowledged_is_not_carried_out_again",),
    ),
    Fault(
        name="a command that was acknowledged is acknowledged again",
        path="orchestrator/ledger/commands.py",
        old='    .where(commands.c.id == bindparam("of"), commands.c.done_at.is_(None))\n',
        new='    .where(commands.c.id == bindparam("of"))\n',
        tests=("tests/conformance/test_commands.py::test_what_is_acknowledged_is_not_carried_out_again",),
    ),
    Fault(
        name="two processes give the same submission numbers",
        path="orchestrator/ledger/claims.py",
        old="    return -(-floor // SLOTS) * SLOTS + slot\n",
        new="    return floor\n",
        tests=(
            "tests/conformance/test_claims.py::test_numbers_of_two_processes_never_meet_and_are_hardly_ahead_of_their_claims",
        ),
    ),
    Fault(
        name="what a process said long ago is believed",
        path="orchestrator/ledger/heartbeats.py",
        old="        return abs(now - self.beaten_at) <= STALE_US\n",
        new="        return True\n",
        tests=(
            "tests/conformance/test_heartbeats.py::test_what_was_said_over_half_a_minute_ago_is_not_believed_nor_what_is_so_far_ahead",
            "tests/engine/test_heartbeat.py::test_without_news_looking_goes_through_the_jobs",
        ),
    ),
    Fault(
        name="a paused run is said to be held up for longer than it is",
        path="orchestrator/engine/engine.py",
        old="session.endpoint.held_up(run, Wishes())",
        new="session.held_up",
        tests=(
            "tests/engine/test_mended.py::test_status_says_the_sentence_of_the_display_where_somebody_is_at_work_and_has_said_so_of_late",
        ),
    ),
)
