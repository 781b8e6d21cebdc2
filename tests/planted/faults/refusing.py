"""What 429s do to the rate."""

from tests.planted.faults.fault import Fault

CONTROLLER = "tests/core/limits/test_rate_controller.py"
WORLDS = f"{CONTROLLER}::test_in_worlds_that_refuse_the_limits_are_used_and_little_is_refused"
AFTER_429 = "tests/core/limits/test_rate_pacer_after_429.py"

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="a cut stays although the refusals go on",
        path="orchestrator/core/limits/rate_controller.py::RateController._judge",
        old="self._go_on(now, trial.share)",
        new="self._go_on(now, self.share)",
        tests=(f"{CONTROLLER}::test_refusals_that_go_on_for_a_window_and_longer_are_stray_and_the_rate_is_as_before",),
    ),
    Fault(
        name="after all was refused the rate is as before",
        path="orchestrator/core/limits/rate_controller.py::RateController.reopened",
        old="share = min(self.share, BELOW * self._as_share(seen))",
        new="share = self.share",
        tests=(WORLDS,),
    ),
    Fault(
        name="each refusal is one too many",
        path="orchestrator/core/limits/stray_refusals.py::TOLERATED",
        old="TOLERATED: Final = 0.015",
        new="TOLERATED: Final = 0.00001",
        tests=(WORLDS,),
    ),
    Fault(
        name="more is tried as often however long a ceiling has stood",
        path="orchestrator/core/limits/rate_rise.py::Ceiling.hold",
        old="max(round(RISE_WINDOWS * window_us), (now - self._stood_since) // TRIED_AGAIN)",
        new="window_us // 10",
        tests=(WORLDS,),
    ),
    Fault(
        name="to verify strays puts off trying more",
        path="orchestrator/core/limits/rate_controller.py::RateController._judge",
        old="self._go_on(now, trial.share)",
        new="self._go_on(now, trial.share)\nself._ceiling.rise_at = now + (now - self._ceiling._stood_since) // 4",
        tests=(f"{CONTROLLER}::test_a_limit_that_is_raised_among_strays_is_found",),
    ),
    Fault(
        name="a ceiling is never tried again",
        path="orchestrator/core/limits/rate_controller.py::RateController.answered",
        old="elif self.phase is RatePhase.BOUND and now >= self._ceiling.rise_at:",
        new="elif self.phase is RatePhase.BOUND and now < 0:",
        tests=(WORLDS,),
    ),
    Fault(
        name="a single 429 is a reason for a pause",
        path="orchestrator/core/limits/service_pauses.py::ServicePauses.refuse",
        old="if self._refused_in_row < REFUSED_IN_ROW:",
        new="if self._refused_in_row < 1:",
        tests=(f"{AFTER_429}::test_a_few_429s_are_no_reason_for_a_pause_or_a_lower_rate",),
    ),
    Fault(
        name="below a ceiling requests leave in bursts",
        path="orchestrator/core/limits/rate_pacer.py::Pacer._set_share",
        old='self._pacing == "window" and used >= 1 else',
        new='self._pacing == "window" else',
        tests=(
            f"{AFTER_429}::test_where_the_allowance_was_in_use_the_rate_is_what_was_taken_until_then_and_sent_evenly",
        ),
    ),
    Fault(
        name="the emulator's neighbour uses nothing",
        path="orchestrator/emulator/contract/limits.py::OperationMeter.share_with",
        old="self._counter.admit(at)",
        new="pass",
        tests=(
            "tests/emulator/contract/test_limits.py::test_a_neighbour_uses_its_share_of_the_limit_and_is_in_no_figures",
        ),
    ),
    Fault(
        name="a single 429 takes away what the workers allow",
        path="orchestrator/core/limits/worker_limits.py::is_throttled",
        old="return throttled > (2 * stray + TOLERATED) * sent",
        new="return throttled > 0",
        tests=(
            "tests/core/limits/test_worker_limits.py::test_single_429s_that_our_rate_does_not_cause_take_away_nothing",
        ),
    ),
    Fault(
        name="the process at work does not say how many 429s its rate does not cause",
        path="orchestrator/engine/endpoint/limits.py::LimitKeeper.meters",
        old="stray=round(meter.stray, 4),",
        new="",
        tests=("tests/api/runs/test_doctor.py::test_429s_that_our_rate_does_not_cause_are_found",),
    ),
)
