"""What cannot be carried out is refused with its reason and exit code 2, and nothing is sent."""

import json
import re

import pytest

from tests.system.processes import Desk, Program, Service, Verdict, lines_of, resume_command_in

pytestmark = pytest.mark.system

GOOD = '{"prompt": "a lighthouse"}\n'
JOB = '{"input": {"prompt": "a fox"}'
SECRET = "wJalrXUtnFEMI-very-secret"


def refused(desk: Desk, service: Service, *arguments: str) -> Verdict:
    """Runs the program, which is to refuse."""
    ended = desk.call("run", *arguments, "--endpoint", "ep1", "--serverless-url", service.url)
    check(ended, service)
    return ended


def check(ended: Verdict, service: Service) -> None:
    """Exit code 2, nothing on standard output, words rather than a traceback, nothing sent."""
    assert ended.exit_code == 2, ended
    assert ended.stdout == ""
    assert "Traceback" not in ended.stderr
    assert service.log()["counted"] == {}


LINES = {
    JOB + "}": "",
    JOB
    + ', "s3Config": {"accessSecret": "env:NO_SUCH_SECRET"}}': "NO_SUCH_SECRET, which no row may have unasked; if that is meant, add --allow-env NO_SUCH_SECRET",
    json.dumps({"input": {"p": "x" * (10 * 1024 * 1024)}}): "its request would have .* over the limit of 10,485,760",
    "seven": "not JSON",
}
"""Some of each level; all that may be wrong with a line: `tests/formats/input`."""


@pytest.mark.slow
def test_every_bad_line_is_told_with_its_number(desk: Desk, service: Service) -> None:
    desk.write("in.jsonl", "".join(f"{line}\n" for line in LINES))

    ended = refused(desk, service, "in.jsonl", "--output", "out.jsonl")

    for number, says in enumerate(LINES.values(), start=1):
        told = re.findall(rf"^(?:line \d+, )*line {number}(?:, line \d+)*: (.*)$", ended.stderr, re.MULTILINE)
        assert len(told) == bool(says), (number, says, ended.stderr)
        assert re.search(says, "".join(told)), (number, says, told)
    assert f"in.jsonl: {len(LINES) - 1} problems; nothing was sent" in ended.stderr
    assert not (desk.folder / "out.jsonl").exists()


@pytest.mark.slow
def test_a_literal_secret_is_refused_and_never_printed(desk: Desk, service: Service) -> None:
    config = {"accessId": SECRET, "accessSecret": SECRET, "bucketName": "b"}
    desk.write("in.jsonl", lines_of([{"input": {"p": 1}, "s3Config": config}]))

    ended = refused(desk, service, "in.jsonl")

    assert "line 1: s3Config.accessId must name an environment variable" in ended.stderr
    assert SECRET not in ended.stderr
    assert not any(SECRET.encode() in path.read_bytes() for path in desk.folder.iterdir() if path.name != "in.jsonl")


@pytest.mark.slow
def test_what_was_refused_leaves_no_trace(desk: Desk, service: Service) -> None:
    desk.write("in.jsonl", GOOD + "oops\n")
    refused(desk, service, "in.jsonl")
    results = desk.call("results", "in")
    assert results.exit_code == 2, results
    assert "there is no run called 'in' here; there is: none" in results.stderr
    desk.write("in.jsonl", '{"prompt": "another"}\n')

    mended = desk.call("run", "in.jsonl", "--endpoint", "ep1", "--serverless-url", service.url, "--json")

    assert mended.exit_code == 0, mended
    assert mended.summary["jobs"]["total"] == 1
    assert service.accepted() == [{"prompt": "another"}]


@pytest.mark.parametrize("slip", ["nowhere.jsonl --endpoint ep1", "in.jsonl --endpoint local:nowhere.py:work"])
def test_a_slip_of_the_pen_leaves_nothing_behind(desk: Desk, service: Service, slip: str) -> None:
    desk.write("in.jsonl", GOOD)

    ended = desk.call("run", *slip.split(), "--serverless-url", service.url)

    check(ended, service)
    assert re.search(r"nowhere.jsonl: .*No such file|there is no file .*nowhere.py", ended.stderr)
    assert [path.name for path in desk.folder.iterdir()] == ["in.jsonl"]


@pytest.mark.parametrize(
    "named",
    [
        "caf\udce9.jsonl --name n --endpoint ep1",
        "in.jsonl --endpoint ep1 --ledger caf\udce9",
    ],
)
def test_a_name_of_a_file_that_is_no_text_is_refused_before_anything_is_done(
    desk: Desk, service: Service, named: str
) -> None:
    for name in ("in.jsonl", "caf\udce9.jsonl"):
        desk.write(name, GOOD)

    ended = desk.call("run", *named.split(), "--serverless-url", service.url)

    check(ended, service)
    assert re.search(r"caf\\udce9[^ ]*: the names of files and folders must be UTF-8", ended.stderr), ended
    assert len(list(desk.folder.iterdir())) == 2


@pytest.mark.parametrize(
    ("named", "exit_code"),
    [
        ("in.jsonl --endpoint ep1 --ledger circle", 3),
        ("circle --endpoint ep1", 2),
    ],
)
def test_links_that_lead_in_a_circle_are_no_defect(desk: Desk, service: Service, named: str, exit_code: int) -> None:
    desk.write("in.jsonl", GOOD)
    (desk.folder / "circle").symlink_to("circle")

    ended = desk.call("run", *named.split(), "--serverless-url", service.url)

    assert ended.exit_code == exit_code, ended
    assert "circle" in ended.stderr
    assert service.log()["counted"] == {}


@pytest.fixture
def held(desk: Desk, service: Service) -> Program:
    """A run of three jobs that are at the service and do not finish, stopped again: `prompts`."""
    service.change(hold=True)
    desk.inputs(3)
    program = desk.start("run", "prompts.jsonl", "--endpoint", "ep1", "--serverless-url", service.url)
    service.wait("accepted", 3)
    desk.until_outstanding(3)
    return program


@pytest.mark.slow
def test_the_input_of_a_run_is_not_overwritten_under_another_name(desk: Desk, service: Service) -> None:
    desk.inputs(2)
    (desk.folder / "twin.jsonl").hardlink_to(desk.folder / "prompts.jsonl")
    here = ("--serverless-url", service.url)
    assert desk.call("run", "prompts.jsonl", "--endpoint", "ep1", *here).exit_code == 0

    ended = desk.call("resume", "prompts", "--output", "twin.jsonl")

    assert ended.exit_code == 2, ended
    assert "twin.jsonl: this is the input of the run 'prompts'" in ended.stderr


@pytest.mark.slow
def test_a_changed_input_is_refused_on_resume_and_changes_nothing(desk: Desk, service: Service, held: Program) -> None:
    held.kill()
    text = (desk.folder / "prompts.jsonl").read_text()
    desk.write("prompts.jsonl", text.replace('"n": 1', '"n": 17') + '{"custom_id": "new", "n": 4}\n')

    ended = desk.call(
        "run", "prompts.jsonl", "--endpoint", "ep1", "--serverless-url", service.url, "--output", "out.jsonl"
    )

    assert ended.exit_code == 2, ended
    assert "line 2: its custom_id is at the service with another input; give the command again once" in ended.stderr
    assert re.search(
        r"3 jobs of this run at the service; collect again within (29|30) min, or results expire", ended.stderr
    )
    assert len(service.accepted()) == 3

    service.change(hold=False)
    resumed = desk.shell("orchestrator resume prompts --output out.jsonl")
    assert resumed.exit_code == 0, resumed
    assert desk.ids("out.jsonl") == ["row-0", "row-1", "row-2"]
    assert len(service.accepted()) == 3


@pytest.mark.slow
def test_the_name_of_another_run_is_refused_and_what_is_not_there_is_told(desk: Desk, service: Service) -> None:
    desk.inputs(2)
    here = ("--serverless-url", service.url)
    assert desk.call("run", "prompts.jsonl", "--endpoint", "ep1", *here).exit_code == 0
    (desk.folder / "other").mkdir()
    desk.write("other/prompts.jsonl", GOOD)
    requests = service.log()["counted"]

    others: dict[tuple[str, ...], str] = {
        ("run", "prompts.jsonl", "--endpoint", "ep2", *here): "is for the endpoint ep1",
        ("run", "other/prompts.jsonl", "--endpoint", "ep1", *here): f"was made from {desk.folder / 'prompts.jsonl'}",
    }
    for command, says in others.items():
        ended = desk.call(*command)
        assert ended.exit_code == 2, ended
        assert says in ended.stderr
        assert "another name with --name" in ended.stderr
        assert resume_command_in(ended.stderr) == "orchestrator resume prompts"

    own = ("--output", "own.jsonl", "--config", "none.toml", "--limit", "run=1/1")
    desk.write("none.toml", "")
    ended = desk.call("run", "other/prompts.jsonl", "--endpoint", "ep1", *here, *own)
    assert resume_command_in(ended.stderr) == "orchestrator resume prompts"

    missing: dict[tuple[str, ...], str] = {
        ("resume", "nobody"): "there is no run called 'nobody' here; there is: prompts",
        ("resume", "prompts", "--ledger", "nowhere.db"): "nowhere.db: there is no ledger here",
    }
    for command, says in missing.items():
        ended = desk.call(*command)
        assert (ended.exit_code, ended.stdout) == (2, "")
        assert says in ended.stderr

    assert service.log()["counted"] == requests
    assert not (desk.folder / "nowhere.db").exists()
