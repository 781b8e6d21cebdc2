"""What holds a run up, as far as batches go: whether they may begin, get more rows, or wait for somebody."""

from orchestrator.core.gates.brake_gates import Brake
from orchestrator.core.gates.gates import Closed, GateResult
from orchestrator.core.limits.rate_pacer import Operation
from orchestrator.engine.endpoint.endpoint import Endpoint
from orchestrator.engine.sending.run_sender import RunSender


def is_on_hold(endpoint: Endpoint, run: RunSender) -> bool:
    """Whether nothing of `run` is to begin for now."""
    return _holds_back(_gate(endpoint, run)) or run.brakes.find_out


def takes_none(endpoint: Endpoint, run: RunSender) -> bool:
    """Whether no more rows of `run` may be claimed for a batch for now."""
    gate = _gate(endpoint, run)
    return isinstance(gate, Closed) or gate.most == 0 or run.is_lane_open(Operation.RUN)


def is_stopped(endpoint: Endpoint, run: RunSender) -> bool:
    """Whether nothing more of `run` is sent before somebody does something: its end must not wait for a draft."""
    gate = _gate(endpoint, run)
    return isinstance(gate, Closed) and _holds_back(gate) and gate.hold.stops and gate.until is None


def _gate(endpoint: Endpoint, run: RunSender) -> GateResult:
    return run.gate(in_flight=len(endpoint.claimed), by_retry=False)


def _holds_back(gate: GateResult) -> bool:
    """Whether even what is in a draft is not to go: for a budget it counts already, and waiting frees nothing."""
    return isinstance(gate, Closed) and gate.hold.gate != Brake.BUDGET
