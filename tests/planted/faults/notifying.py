"""What people are told of flows, and what becomes of it: reuse, and what is kept."""

from tests.planted.faults.fault import Fault

_NOTIFICATIONS = "tests/engine/test_notifications.py"

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="what happens to a flow is owed to nobody",
        path="orchestrator/ledger/flows.py",
        old="        await flow_owe(connection, flow, news, why, now)\n    return True\n",
        new="        pass\n    return True\n",
        tests=(f"{_NOTIFICATIONS}::test_killed_at_a_commit_each_news_is_owed_once",),
    ),
    Fault(
        name="what nobody took counts as told",
        path="orchestrator/engine/upkeep/notifier.py",
        old="        if problem is None:\n",
        new="        if problem != told.problem:\n",
        tests=(f"{_NOTIFICATIONS}::test_a_receiver_in_trouble_is_told_again_under_the_same_id_until_it_takes_it",),
    ),
    Fault(
        name="a message that is sent again is another one for its receiver",
        path="orchestrator/api/telling.py",
        old="message_id(told.id, told.owed_at, ",
        new="message_id(told.id, clock.now(), ",
        tests=(f"{_NOTIFICATIONS}::test_a_receiver_in_trouble_is_told_again_under_the_same_id_until_it_takes_it",),
    ),
    Fault(
        name="a redirect counts as taken",
        path="orchestrator/api/telling.py",
        old="_OK: Final = range(200, 300)\n",
        new="_OK: Final = range(200, 400)\n",
        tests=(f"{_NOTIFICATIONS}::test_a_receiver_in_trouble_is_told_again_under_the_same_id_until_it_takes_it",),
    ),
    Fault(
        name="a result of another version of the endpoint is taken again",
        path="orchestrator/ledger/reuse.py",
        old="reuse_key(service_url, name, digest, reuse.version)",
        new='reuse_key(service_url, name, digest, "")',
        tests=("tests/conformance/test_reuse.py::test_results_of_another_version_are_not_taken",),
    ),
    Fault(
        name="a result is taken again however old it is",
        path="orchestrator/core/reusing.py",
        old="    if now - ended_at > reuse.young_us:\n",
        new="    if now < ended_at:\n",
        tests=("tests/core/test_reusing.py::test_a_result_is_taken_while_it_is_young",),
    ),
    Fault(
        name="a result that was damaged on the disk is taken again",
        path="orchestrator/ledger/reuse.py",
        old="            raise DamagedError\n        return",
        new="            pass\n        return",
        tests=("tests/conformance/test_reuse.py::test_a_damaged_result_is_not_taken",),
    ),
    Fault(
        name="rows go of which somebody has something done again",
        path="orchestrator/ledger/flows.py",
        old="runs.c.id == run, runs.c.id.in_(of_ended), ~UNFINISHED)",
        new="runs.c.id == run)",
        tests=("tests/engine/test_outlived.py::test_what_is_not_to_go_stays",),
    ),
    Fault(
        name="of a resumable job that has ended the oldest checkpoint is kept",
        path="orchestrator/ledger/pruning.py",
        old="(_newer.c.seq > checkpoints.c.seq)",
        new="(_newer.c.seq < checkpoints.c.seq)",
        tests=("tests/engine/test_pruning.py::test_of_a_job_that_has_ended_the_newest_checkpoint_is_left",),
    ),
)
