"""When going on is pointless the run stops with exit code 3 and one clear line, and can be resumed."""

import pytest

from tests.system.processes import FAST, Desk, Service, resume_command_in

pytestmark = pytest.mark.system


@pytest.mark.slow
@pytest.mark.parametrize(
    ("endpoint", "key", "says"),
    [("ep1", "wrong", "401"), ("ep2", None, "404")],
    ids=["a wrong key", "an unknown endpoint"],
)
def test_a_wrong_key_or_endpoint_stops_the_run_at_once_and_fails_no_job(
    desk: Desk, service: Service, endpoint: str, key: str | None, says: str
) -> None:
    desk.inputs(100)
    environment = {} if key is None else {"ORCHESTRATOR_API_KEY": key}

    ended = desk.call(
        "run", "prompts.jsonl", "--endpoint", endpoint, "--serverless-url", service.url, "--json", environ=environment
    )

    assert ended.exit_code == 3, ended
    errors = [line for line in ended.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert says in errors[0]
    assert ended.summary["jobs"]["failed"] == 0
    assert ended.summary["jobs"]["queued"] == 100
    assert service.counted("run") < 50, "it stops at the first such answer, give or take what is in flight"

    service.change(endpoint=endpoint)
    resumed = desk.shell(resume_command_in(ended.stderr))
    assert resumed.exit_code == 0, resumed
    assert len(service.accepted()) == 100


@pytest.mark.slow
def test_refused_half_way_it_collects_what_is_outstanding_and_goes_on_once_it_is_taken_again(
    desk: Desk, service: Service
) -> None:
    service.change(accept_max=100, finish_after_s=(0.5, 1.0))
    desk.inputs(200)
    program = desk.start(
        "run", "prompts.jsonl", "--endpoint", "ep1", "--serverless-url", service.url, "--output", "results.jsonl",
        "--json", *FAST,
    )  # fmt: skip

    program.until_said("nothing is sent there for now; a run that is nowhere else stops after a minute")
    service.change(accept_max=None)
    ended = program.ended()

    assert ended.exit_code == 0, ended
    assert ended.summary["jobs"]["succeeded"] == 200
    assert desk.ids() == [f"row-{n}" for n in range(200)]
    assert len(service.accepted()) == 200
