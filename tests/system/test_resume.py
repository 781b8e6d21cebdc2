"""Running again: what is new is sent, what is known is kept, and where the rows come from does not matter."""

import os
import signal

import pytest

from tests.system.processes import FAST, Desk, Service, lines_of, resume_command_in

pytestmark = pytest.mark.system


@pytest.mark.slow
def test_standard_input_is_read_like_a_file_and_needs_a_name(desk: Desk, service: Service) -> None:
    place = ("--endpoint", "ep1", "--serverless-url", service.url, "--output", "out.jsonl", *FAST)
    text = lines_of([{"custom_id": "a", "n": 1}, {"custom_id": "b", "n": 2}])

    ended = desk.call("run", "-", "--name", "piped", *place, given=text)
    again = desk.call("run", "-", "--name", "piped", *place, given=text + lines_of([{"custom_id": "c", "n": 3}]))

    assert ended.exit_code == again.exit_code == 0, (ended, again)
    assert desk.ids("out.jsonl") == ["a", "b", "c"]
    assert sorted(each["n"] for each in service.accepted()) == [1, 2, 3]


@pytest.mark.slow
def test_a_byte_order_mark_windows_line_ends_blank_lines_and_a_missing_last_one_are_fine(
    desk: Desk, service: Service
) -> None:
    desk.write(
        "in.jsonl", b'\xef\xbb\xbf{"n": 1}\r\n\r\n  {"n": 2}  \r\n\n{"n": 1}\r\n{"n": 4, "t": "\xc3\xa4\xe2\x80\xa8"}'
    )

    ended = desk.call(
        "run", "in.jsonl", "--endpoint", "ep1", "--serverless-url", service.url, "--output", "out.jsonl", *FAST
    )

    assert ended.exit_code == 0, ended
    first, second, third, fourth = desk.ids("out.jsonl")
    assert third == f"{first}-2"
    assert len({first, second, third, fourth}) == 4
    assert [row["output"]["echo"] for row in desk.rows("out.jsonl")][-1] == {"n": 4, "t": "ä\u2028"}
    assert len(service.accepted()) == 4


@pytest.mark.slow
def test_added_rows_are_sent_and_removed_ones_stay_in_the_run(desk: Desk, service: Service) -> None:
    command = (
        "run", "in.jsonl", "--endpoint", "ep1", "--serverless-url", service.url, "--output", "out.jsonl", "--json",
        *FAST,
    )  # fmt: skip
    rows = [{"custom_id": f"row-{n}", "n": n} for n in range(20)]
    desk.write("in.jsonl", lines_of(rows[:10]))
    assert desk.call(*command).exit_code == 0

    desk.write("in.jsonl", lines_of(rows[3:]))
    ended = desk.call(*command)

    assert ended.exit_code == 0, ended
    assert "3 jobs of the run no longer in the input: kept in the run" in ended.stderr
    assert ended.summary["jobs"]["total"] == 20
    assert ended.summary["requests"]["run"] == 10
    assert len(service.accepted()) == 20
    assert set(desk.ids("out.jsonl")) == {row["custom_id"] for row in rows}
    assert [each for each in desk.ids("out.jsonl") if int(each[4:]) > 2] == [f"row-{n}" for n in range(3, 20)]


def test_resume_goes_on_without_the_input_and_collects_what_a_dead_process_sent(desk: Desk, service: Service) -> None:
    service.change(hold=True)
    path = desk.inputs(50)
    program = desk.start("run", "prompts.jsonl", "--endpoint", "ep1", "--serverless-url", service.url, *FAST)
    service.wait("accepted", 50)
    desk.until_outstanding(50)
    program.kill()
    path.unlink()
    service.change(hold=False)

    resumed = desk.call("resume", "prompts", "--output", "results.jsonl", "--json", *FAST)

    assert resumed.exit_code == 0, resumed
    assert desk.ids() == [f"row-{n}" for n in range(50)]
    assert len(service.accepted()) == 50


@pytest.mark.slow
def test_a_process_collects_for_the_other_runs_of_its_ledger_and_sends_only_its_own(
    desk: Desk, service: Service
) -> None:
    place = ("--endpoint", "ep1", "--serverless-url", service.url, *FAST)
    service.change(hold=True)
    desk.inputs(10, name="first.jsonl")
    program = desk.start("run", "first.jsonl", *place)
    service.wait("accepted", 10)
    desk.until_outstanding(10)
    program.kill()
    service.change(hold=False)
    desk.inputs(10, name="second.jsonl", padding="of the second")
    service.change(finish_after_s=(1.5, 1.5))  # long enough in the works for the others to be asked for
    second = desk.call("run", "second.jsonl", *place, "--json")

    assert second.exit_code == 0, second
    assert second.summary["jobs"]["total"] == 10
    first = desk.call("results", "first")
    assert len(first.stdout.splitlines()) == 10
    assert len(service.accepted()) == 20


@pytest.mark.slow
def test_the_named_command_goes_on_with_the_listener_the_files_and_the_configuration(
    desk: Desk, service: Service
) -> None:
    service.change(hold=True)
    desk.inputs(30)
    desk.write("my settings.toml", 'limit = ["run=1000/1:100", "status=2000/1:200"]\nerrors = "the errors.jsonl"\n')
    program = desk.start(
        "run", "prompts.jsonl", "--endpoint", "ep1", "--serverless-url", service.url, "--config", "my settings.toml",
        "--ledger", "own.db", "--listen", "127.0.0.1:0",
        environ={"ORCHESTRATOR_OUTPUT": "the results.jsonl"},
    )  # fmt: skip
    service.wait("accepted", 30)
    desk.until_outstanding(30, "own.db")
    program.signal(signal.SIGINT)
    stopped = program.ended()
    assert stopped.exit_code == 130, stopped
    command = resume_command_in(stopped.stderr)
    assert command == "orchestrator resume prompts --ledger own.db", "the run remembers all else"
    service.change(hold=False, accept_max=30)
    (desk.folder / "the errors.jsonl").unlink()

    continued = desk.shell(f"{command} --json")

    assert continued.exit_code == 0, continued
    assert continued.summary["output"] == str(desk.folder.resolve() / "the results.jsonl")
    for said in ("--listen 127.0.0.1:0", "--limit run=1000/1:100", "--limit status=2000/1:200"):
        assert said in continued.stderr
    assert desk.ids("the results.jsonl") == [f"row-{n}" for n in range(30)]
    assert desk.rows("the errors.jsonl") == []
    again = desk.shell(f"{command} --json")  # the listener is bound once more
    assert again.exit_code == 0, again


@pytest.mark.slow
def test_a_resume_that_names_no_files_writes_to_those_of_before(desk: Desk, service: Service) -> None:
    desk.inputs(3)
    (desk.folder / "there").mkdir()
    here = ("--endpoint", "ep1", "--serverless-url", service.url, *FAST)
    command = ("run", "prompts.jsonl", *here, "--output", "there/r.jsonl", "--errors", "e.jsonl")
    assert desk.call(*command).exit_code == 0
    (desk.folder / "there" / "r.jsonl").unlink()

    elsewhere = Desk(desk.folder / "there", desk.launch)
    resumed = elsewhere.call("resume", "prompts", "--ledger", "../orchestrator.db", "--json")

    assert resumed.exit_code == 0, resumed
    assert f"prompts: as before: --output {desk.folder}/there/r.jsonl --errors {desk.folder}/e.jsonl" in resumed.stderr
    assert resumed.summary["output"] == f"{desk.folder}/there/r.jsonl"
    assert resumed.summary["errors"] == f"{desk.folder}/e.jsonl"
    assert desk.ids("there/r.jsonl") == ["row-0", "row-1", "row-2"]

    assert desk.call("run", "prompts.jsonl", *here, "--quiet").exit_code == 0  # these are no news of the files
    assert desk.call("resume", "prompts", "--output", "/dev/stdout", "--errors", "/dev/null").exit_code == 0
    (desk.folder / "there" / "r.jsonl").unlink()
    (desk.folder / "there").rmdir()
    gone = desk.call("resume", "prompts")
    assert gone.exit_code == 2, gone
    assert "there does not exist; create it or choose another (the run's files were written there before" in gone.stderr


HANDLER = """
import os, sys, time

def work(job):
    if "BLOCK" in os.environ:
        print("the handler has begun", file=sys.stderr, flush=True)
        time.sleep(3600)
    return {"double": 2 * job["input"]["n"]}
"""


@pytest.mark.slow
def test_a_killed_run_of_a_function_of_ones_own_goes_on_and_counts_nothing_as_lost(desk: Desk) -> None:
    desk.write("mine.py", HANDLER)
    desk.inputs(40)
    command = (
        "run", "prompts.jsonl", "--endpoint", "local:mine.py:work", "--output", "results.jsonl", "--json", *FAST,
    )  # fmt: skip
    program = desk.start(*command, environ={"BLOCK": "1"})
    program.until_said("the handler has begun")
    program.kill()
    assert desk.states().keys() & {"submitting", "outstanding"}

    ended = desk.call(*command)

    assert ended.exit_code == 0, ended
    assert [row["output"]["double"] for row in desk.rows()] == [2 * n for n in range(40)]
    assert ended.summary["lost"] == ended.summary["expired"] == 0
    assert ended.summary["uncertain"] == {"seen": 0, "adopted": 0, "resubmitted": 0}
    assert "may be paid again" not in ended.stderr


@pytest.mark.slow
def test_killed_while_it_reads_the_input_it_keeps_nothing_of_it(desk: Desk, service: Service) -> None:
    command = ("run", "in.jsonl", "--endpoint", "ep1", "--serverless-url", service.url, "--json", *FAST)
    os.mkfifo(desk.folder / "in.jsonl")
    program = desk.start(*command)
    with (desk.folder / "in.jsonl").open("w", encoding="utf-8") as pipe:
        pipe.write(lines_of({"custom_id": f"row-{n}", "n": n} for n in range(40_000)))  # more than a pipe holds
        pipe.flush()
        program.kill()
    assert service.log()["counted"] == {}

    unknown = desk.call("resume", "in")
    assert unknown.exit_code == 2
    assert "no run called 'in'" in unknown.stderr

    (desk.folder / "in.jsonl").unlink()
    desk.write("in.jsonl", lines_of([{"custom_id": "row-1", "n": "another input"}]))
    again = desk.call(*command)
    assert again.exit_code == 0, again
    assert again.summary["jobs"]["total"] == 1
    assert service.accepted() == [{"n": "another input"}]
