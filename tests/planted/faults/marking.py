"""What has left, by the marks that are kept of it."""

from tests.planted.faults.fault import Fault

SLOTS = "tests/ledger/sites/test_slot_marks.py"

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="a submission is marked only once its answer is there",
        path="orchestrator/engine/lanes/queue_lanes.py::RunLane.send",
        old="return await self._endpoint.api.run(permit, builder.body(claim), leaving=leaving)",
        new="answer = await self._endpoint.api.run(permit, builder.body(claim))\nleaving()\nreturn answer",
        tests=(
            "tests/engine/maintenance/test_sent_or_not.py::test_what_was_claimed_and_never_left_is_queued_again_at_no_cost",
        ),
        worlds=("commits", 8, 32),
    ),
    Fault(
        name="a submission is marked before there is a connection",
        path="orchestrator/client/http/backends.py::AiohttpCarrier.carry",
        old="upload = Upload(request.body, idle_timeout, request.leaving, self.may_leave)",
        new=(
            "upload = Upload(request.body, idle_timeout, None)\nif request.leaving is not None:\n    request.leaving()"
        ),
        tests=("tests/client/http/test_large_bodies.py::test_a_request_leaves_with_its_last_bytes",),
    ),
    Fault(
        name="a large body counts as sent from its beginning",
        path="orchestrator/client/http/bodies.py::Upload._write",
        old="is_last = self._handed + len(piece) == self.size",
        new="is_last = start == 0",
        tests=("tests/client/http/test_large_bodies.py::test_a_request_leaves_with_its_last_bytes",),
    ),
    Fault(
        name="the marks are not looked at after a crash",
        path="orchestrator/engine/maintenance/janitor.py::left_submitting",
        old="if never_left:",
        new="if False:",
        tests=(
            "tests/engine/maintenance/test_sent_or_not.py::test_what_was_claimed_and_never_left_is_queued_again_at_no_cost",
        ),
    ),
    Fault(
        name="marks are believed after the machine was started again",
        path="orchestrator/ledger/sites/sent_marks.py::Seal.packed",
        old="self.boot.encode()[:40]",
        new='b""',
        tests=(
            "tests/ledger/sites/test_sent_marks.py::test_after_a_crash_of_the_machine_nothing_is_known_of_what_was_claimed",
            "tests/engine/maintenance/test_sent_or_not.py::test_where_the_marks_cannot_be_believed_everything_claimed_is_uncertain",
        ),
    ),
    Fault(
        name="torn marks are believed",
        path="orchestrator/ledger/sites/sent_marks.py::Marks.is_believed",
        old="and self._is_whole(latest)",
        new="",
        tests=("tests/ledger/sites/test_sent_marks.py::test_a_file_that_is_missing_or_torn_is_not_believed",),
    ),
    Fault(
        name="a new file of marks has no floor",
        path="orchestrator/ledger/sites/sent_marks.py::sole_marks_of",
        old="number), floor=latest)",
        new="number), floor=0)",
        tests=(
            "tests/engine/maintenance/test_sent_or_not.py::test_where_the_marks_cannot_be_believed_everything_claimed_is_uncertain",
        ),
    ),
    Fault(
        name="what others have sent is judged by a process's own marks",
        path="orchestrator/ledger/sites/slot_marks.py::SlotMarks.never_left",
        old="known = self.own.never_left(in_slots.pop(self._slot, ()))",
        new="return self.own.never_left(submissions)",
        tests=(
            f"{SLOTS}::test_of_each_submission_the_marks_of_its_slot_decide",
            f"{SLOTS}::test_a_process_knows_what_another_one_on_its_machine_has_sent_whatever_their_slots",
        ),
    ),
    Fault(
        name="an older file of marks is believed",
        path="orchestrator/ledger/sites/sent_marks.py::Seal.packed",
        old="self.whole, self.part, self.number)",
        new="self.whole, self.part, 1)",
        tests=(
            f"{SLOTS}::test_a_file_of_another_machine_is_not_read_and_an_older_one_not_believed",
            f"{SLOTS}::test_an_older_file_is_not_believed_by_who_has_that_slot_again",
        ),
    ),
    Fault(
        name="what others have marked is read once",
        path="orchestrator/ledger/sites/slot_marks.py::SlotMarks.never_left",
        old="others = await self._files.believed(in_slots)",
        new="self._kept = others = getattr(self, '_kept', {}) or await self._files.believed(in_slots)",
        tests=(f"{SLOTS}::test_what_another_one_has_marked_since_it_was_asked_last_counts",),
    ),
    Fault(
        name="a process goes on in the file of one that may be frozen",
        path="orchestrator/ledger/sites/slot_marks.py::SlotFiles.own_of",
        old="marks = Marks.made(path, Seal(self._boot, *which, number), floor=floor, before=before)",
        new=(
            "known = Seal(self._boot, *which, (await self._home.mark_numbers())[slot])\n"
            "if kept := Marks.kept(path, known, latest=floor):\n"
            "    return kept, None\n"
            "marks = Marks.made(path, Seal(self._boot, *which, number), floor=floor, before=before)"
        ),
        tests=(f"{SLOTS}::test_who_has_the_slot_next_goes_on_from_what_was_marked_in_a_file_of_its_own",),
    ),
    Fault(
        name="a submission is marked once it is known that it may leave",
        path="orchestrator/client/http/bodies.py::leave_marked",
        old="leaving()\nrefuse_to_leave(may_leave)",
        new="leaving()",
        tests=(
            "tests/client/http/test_leave_to_send.py::test_who_was_stopped_since_it_was_marked_does_not_send",
            "tests/client/http/test_leave_to_send.py::test_whatever_carries_it_is_handed_nothing_by_who_was_stopped_since_it_was_marked",
        ),
    ),
    Fault(
        name="a mark that is overwritten is forgotten",
        path="orchestrator/ledger/sites/sent_marks.py::Marks.mark",
        old="words[_FLOOR] = overwritten",
        new="pass",
        tests=(
            "tests/ledger/sites/test_sent_marks.py::test_a_mark_that_is_overwritten_raises_the_floor_to_its_submission",
        ),
    ),
)
