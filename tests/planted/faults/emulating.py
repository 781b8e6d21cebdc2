"""What the emulator does as the service does it, and how our client reads it."""

from tests.planted.faults.fault import Fault

ACCOUNTS = "tests/emulator/test_accounts.py::"
STREAMS = "tests/client/test_streams.py::"
UNSERVED = "tests/emulator/test_unserved.py::"
WORKERS = "tests/emulator/test_workers.py::"

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="a key may do everything with jobs, whatever its permissions",
        path="orchestrator/emulator/gate.py",
        old="        if scope is not None and not self._permits(key, scope):\n",
        new="        if False:\n",
        tests=(ACCOUNTS + "test_a_key_without_the_permission_is_refused_by_every_interface",),
    ),
    Fault(
        name="a stream whose end comes with chunks is asked for once more",
        path="orchestrator/client/streams.py",
        old="            if self.finished and (part.status or was_over):\n",
        new="            if self.finished and not part.chunks:\n",
        tests=(STREAMS + "test_an_answer_that_says_that_the_job_is_over_ends_the_stream_whatever_its_chunks",),
    ),
    Fault(
        name="a job that is tried again goes to whoever asks first",
        path="orchestrator/emulator/endpoint_state.py",
        old="            if job.avoids != worker_id or not self.fleet.has_free_beside(worker_id):\n",
        new="            if True:\n",
        tests=(WORKERS + "test_a_job_that_is_tried_again_goes_to_another_worker_if_there_is_one",),
    ),
    Fault(
        name="a path whose method is wrong is an unknown one",
        path="orchestrator/emulator/routes.py",
        old="                allowed.update(route.methods or ())\n",
        new="                pass\n",
        tests=(UNSERVED + "test_each_interface_has_one_form_of_errors",),
    ),
)
