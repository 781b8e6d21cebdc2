"""Pods that work for runs: what is paid for nothing, or made twice."""

from tests.planted.faults.fault import Fault

_LEASES = "tests/conformance/test_pod_leases.py"
_KILLS = "tests/engine/pods/test_kills.py"
_LYING = "tests/engine/pods/test_lying_account.py"
_RUNS = "tests/engine/pods/test_run_with_pods.py"
_HANDED_OVER = "tests/api/hosting/test_pods_handed_over.py"
_HOST = "tests/engine/pods/test_pod_host.py"
_LATER = f"{_HOST}::test_pods_of_runs_that_are_served_later_are_kept_by_who_comes_next"
_RELEASED = (
    f"{_HOST}::test_a_run_that_is_released_while_its_account_does_not_answer_is_not_sent_before_somebody_asks_again"
)
_UNSENT = f"{_HOST}::test_a_run_in_the_foreground_that_is_released_while_its_account_does_not_answer_ends_unsent"

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="pods stay, and are paid, where the file of their ledger was moved",
        path="orchestrator/engine/engine.py::Engine.working",
        old="is_deposed = self.ledger.ownership is not None and self.ledger.place.lost() is not None",
        new="is_deposed = self.ledger.place.lost() is not None",
        tests=(f"{_RUNS}::test_pods_are_gone_once_the_ledger_of_the_run_is_not_in_its_place_any_more",),
    ),
    Fault(
        name="a request for a pod that was not answered is made again at once",
        path="orchestrator/core/pods/pod_lease.py::_of_missing",
        old="if listed_at < lease.wanted_at + DOUBT_US:",
        new="if False:",
        tests=(
            f"{_LYING}::test_a_create_that_fails_and_does_nothing_is_asked_again_once_that_is_certain",
            "tests/core/pods/test_pod_lease.py::test_a_request_whose_answer_was_lost_is_doubted_for_a_while_and_then_was_none",
        ),
        worlds=("pods", 8, 1),
    ),
    Fault(
        name="a pod of another name is taken for ours",
        path="orchestrator/core/pods/pod_lease.py::pod_of",
        old="pod.name == lease.name and lease.pod in (None, pod.id)",
        new="lease.pod in (None, pod.id)",
        tests=(f"{_LYING}::test_an_answer_about_another_pod_is_not_believed",),
    ),
    Fault(
        name="a pod that one list does not have is taken for gone",
        path="orchestrator/core/pods/pod_lease.py::_of_missing",
        old="return LookItUp()",
        new="return Became(lease_ended(lease, LeaseEnd.LOST, listed_at))",
        tests=(f"{_LYING}::test_an_old_list_is_not_believed_when_a_pod_is_missing_in_it",),
    ),
    Fault(
        name="a pod that comes late is left running",
        path="orchestrator/core/pods/pod_lease.py::strays",
        old="return [(never[pod.name], pod) for pod in pods if pod.name in never]",
        new="return []",
        tests=(f"{_LYING}::test_a_pod_that_comes_long_after_it_was_given_up_is_terminated",),
    ),
    Fault(
        name="a pod that rests is started again for two runs",
        path="orchestrator/ledger/runs/pod_leases.py::PodLeases.want",
        old="if wish.rests is not None and await _has_lease(transaction, wish.rest_url, wish.rests.pod):",
        new="if False:",
        tests=(f"{_LEASES}::test_a_pod_that_rests_is_started_again_for_one_of_those_who_want_it",),
    ),
    Fault(
        name="a run is deleted while a pod of it may be paid",
        path="orchestrator/ledger/transactions/run_removal.py::run_take_back",
        old="_TAKE_BACK.where(may_go, ~_HAS_PODS)",
        new="_TAKE_BACK.where(may_go)",
        tests=(
            "tests/api/hosting/test_pods_handed_over.py::test_a_run_is_deleted_once_no_pod_of_it_can_come_that_nobody_would_end",
            f"{_LEASES}::test_a_run_goes_once_no_pod_of_it_may_be_paid_and_gets_none_from_then_on",
            f"{_KILLS}::test_a_run_is_deleted_once_its_pods_are_ended",
        ),
    ),
    Fault(
        name="a pod is asked for for a run that was deleted meanwhile",
        path="orchestrator/ledger/runs/pod_leases.py::PodLeases.want",
        old="if not await _is_run(transaction, wish.run):",
        new="if False:",
        tests=(f"{_LEASES}::test_a_run_goes_once_no_pod_of_it_may_be_paid_and_gets_none_from_then_on",),
    ),
    Fault(
        name="a pod that is to end is forgotten and not ended",
        path="orchestrator/engine/pods/pod_keeper.py::PodKeeper._carried_out",
        old="await account.release(pod, step.how)\nself._released.add(lease.id)",
        new="return shown(lease, None, self._clock.now())",
        tests=(f"{_RUNS}::test_pods_are_made_for_the_run_do_its_jobs_and_are_gone_after_it",),
    ),
    Fault(
        name="a process that ends leaves its pods running",
        path="orchestrator/engine/engine.py::Engine.working",
        old="await self.host.pods.end()",
        new="pass",
        tests=(f"{_RUNS}::test_pods_are_made_for_the_run_do_its_jobs_and_are_gone_after_it",),
        worlds=("pods", 5, 1),
    ),
    Fault(
        name="a run that is paused keeps its pods",
        path="orchestrator/engine/hosting/pod_host.py::PodHost._wanting",
        old="if not rests or session.progress.at_service:",
        new="if True:",
        tests=(f"{_RUNS}::test_pods_are_gone_while_the_run_is_paused_and_others_are_there_once_it_goes_on",),
        worlds=("pods", 24, 1),
    ),
    Fault(
        name="pods that nobody wants are kept",
        path="orchestrator/engine/pods/pod_keeper.py::PodKeeper._release_unwanted",
        old="if used[lease.run] <= (0 if of_run is None else of_run.most):",
        new="if True:",
        tests=(f"{_KILLS}::test_after_a_kill_tidy_leaves_no_pod_that_is_paid",),
    ),
    Fault(
        name="whoever comes next ends pods whose run is about to go on",
        path="orchestrator/engine/hosting/pod_host.py::PodHost._undecided",
        old="leases = {lease.run for lease in self.keeper.open_leases}",
        new="leases: set[int] = set()",
        tests=(f"{_KILLS}::test_a_pod_that_was_made_and_never_heard_of_is_found_by_the_next_run_and_not_made_again",),
    ),
    Fault(
        name="who tidies looks too seldom for a pod that comes late",
        path="orchestrator/engine/hosting/pod_host.py::PodHost.tidy",
        old="pause_s = min(2 * pause_s, END_LOOK_S_MAX)",
        new="pause_s *= 2",
        tests=(
            f"{_KILLS}::test_tidy_waits_for_a_pod_that_was_asked_for_as_its_process_died_and_says_so_where_it_may_still_come",
        ),
    ),
    Fault(
        name="pods are not paid out of the budget",
        path="orchestrator/engine/sending/spending.py::Spending.budgets",
        old="standing=self._standing(run.id, settings),",
        new="",
        tests=(f"{_RUNS}::test_pods_are_gone_once_a_brake_holds_the_run",),
    ),
    Fault(
        name="after a pod that failed the next one is asked for at once",
        path="orchestrator/core/pods/replacements.py::demand",
        old="now < failed[-1] + min(PAUSE_US << (len(failed) - 1), PAUSE_US_MAX)",
        new="False",
        tests=(
            f"{_RUNS}::test_where_there_are_no_machines_it_is_asked_again_at_growing_pauses",
            "tests/core/pods/test_replacements.py::test_after_one_that_failed_there_is_a_pause_which_doubles",
        ),
    ),
    Fault(
        name="whoever comes next ends pods of a run that is served once another one is",
        path="orchestrator/engine/hosting/run_registry.py::WantedRuns.may_come",
        old="return self.to_come is None or now < self._decided_at or run in self.to_come",
        new="return self.to_come is None or now < self._decided_at",
        tests=(_LATER,),
    ),
    Fault(
        name="whoever comes next ends pods before it has looked which runs are to be served",
        path="orchestrator/engine/hosting/run_registry.py::WantedRuns.__init__",
        old="self.to_come: set[int] | None = None if is_to_look else set()",
        new="self.to_come: set[int] | None = set()",
        tests=(_LATER,),
    ),
    Fault(
        name="a pause waits until the account of another run answers",
        path="orchestrator/engine/hosting/command_desk.py::CommandDesk.__init__",
        old="self._of_now(self._told(self._aside(host.serve_asked)))",
        new="self._of_now(self._told(host.serve_asked))",
        tests=(f"{_HOST}::test_no_command_waits_until_the_account_of_another_run_answers",),
    ),
    Fault(
        name="a run is sent that was released while its account was waited for",
        path="orchestrator/engine/hosting/run_host.py::RunHost._begin",
        old="if session.run.id in self.runs.wanted.to_send:",
        new="if True:",
        tests=(_RELEASED, _UNSENT),
    ),
    Fault(
        name="a run is sent that was released while the account of another one was waited for",
        path="orchestrator/engine/hosting/run_host.py::RunHost.serve_all",
        old="if run is not None and number in to_come and number not in self.runs.sessions:",
        new="if run is not None and number not in self.runs.sessions:",
        tests=(_RELEASED,),
    ),
    Fault(
        name="a pod that could not take part for a moment never does",
        path="orchestrator/engine/hosting/pod_host.py::PodHost.look",
        old="self._runs.pod_urls[run], failed = before, error",
        new="failed = error",
        tests=(f"{_HOST}::test_a_pod_that_cannot_take_part_for_now_takes_part_later_and_those_of_other_runs_at_once",),
    ),
    Fault(
        name="a pod is an endpoint of the ledger as soon as it is asked whether it is ready",
        path="orchestrator/engine/hosting/pod_host.py::PodHost._answers",
        old="placed_at(run, lease.url)",
        new="await self._ledger.runs.at_endpoint(run, lease.url)",
        tests=(f"{_HANDED_OVER}::test_a_pod_that_is_about_to_be_ready_ends_nothing_at_those_that_are",),
    ),
)
