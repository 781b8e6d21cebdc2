"""Jobs whose request is answered with their result."""

from tests.planted.faults.fault import Fault

_HERE = "tests/engine/test_past_the_queue.py::"

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="a request past the queue whose answer was lost waits for a webhook",
        path="orchestrator/engine/settling.py",
        old="        webhooks=endpoint.webhooks and settings.via is Via.QUEUE,\n",
        new="        webhooks=endpoint.webhooks,\n",
        tests=(f"{_HERE}test_an_answer_that_was_lost_is_settled_by_the_policy_and_no_webhook_is_waited_for",),
    ),
    Fault(
        name="a request past the queue is given up like any other, after half a minute",
        path="orchestrator/client/serverless.py",
        old="        return await self._send(permit, Operation.OPENAI, request, within_s=within_s)\n",
        new="        return await self._send(permit, Operation.OPENAI, request)\n",
        tests=(f"{_HERE}test_an_answer_may_take_as_long_as_an_execution",),
    ),
    Fault(
        name="what failed past the queue counts as a lost answer",
        path="orchestrator/core/openai.py",
        old="        if result.status == _FAILED:\n",
        new="        if result.status == _FAILED + 1:\n",
        tests=("tests/core/test_openai.py::test_a_500_is_an_execution_that_failed",),
    ),
    Fault(
        name="past the queue nobody judges outputs",
        path="orchestrator/engine/sending/direct.py",
        old='        if record.status == "COMPLETED":\n',
        new='        if record.status == "TIMED_OUT":\n',
        tests=(f"{_HERE}test_outputs_are_judged_as_everywhere",),
    ),
)
