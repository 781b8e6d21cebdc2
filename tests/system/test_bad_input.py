"""What cannot be carried out is refused with its reason and exit code 2, and nothing is sent."""

import json
import re
import socket
from collections.abc import Mapping
from typing import NamedTuple

import pytest

from tests.system.processes import Desk, Program, Service, Verdict, lines_of, resume_command_in

pytestmark = pytest.mark.system

GOOD = '{"prompt": "a lighthouse"}\n'
JOB = '{"input": {"prompt": "a fox"}'
SECRET = "wJalrXUtnFEMI-very-secret"


def refused(desk: Desk, service: Service, *arguments: str, environ: Mapping[str, str] | None = None) -> Verdict:
    """Runs the program, which is to refuse."""
    ended = desk.call("run", *arguments, "--endpoint", "ep1", "--serverless-url", service.url, environ=environ)
    check(ended, service)
    return ended


def check(ended: Verdict, service: Service) -> None:
    """Exit code 2, nothing on standard output, words rather than a traceback, nothing sent."""
    assert ended.exit_code == 2, ended
    assert ended.stdout == ""
    assert "Traceback" not in ended.stderr
    assert service.log()["counted"] == {}


class Bad(NamedTuple):
    """A bad input, and a pattern for what is said about it."""

    text: str | bytes
    says: str


LINES_OF_JOBS = {
    JOB + "}": "",
    '{"input": {}}': "the input is empty",
    '{"input": null}': "input must be an object",
    '{"input": [1]}': "input must be an object",
    JOB + ', "colour": 1}': 'unknown key "colour"',
    JOB + ', "priority": 11}': "priority must be a whole number from -10 to 10, not 11",
    JOB + ', "custom_id": 7}': "custom_id",
    JOB + ', "policy": {"timeout": 1}}': 'policy has no key "timeout"',
    JOB + ', "policy": {"ttl": 9999}}': "policy.ttl is 9999 ms; the service takes",
    JOB + ', "policy": {"ttl": 604800001}}': "policy.ttl is 604800001 ms",
    JOB + ', "policy": {"ttl": "1h"}}': "policy.ttl must be a whole number of milliseconds",
    JOB + ', "policy": {"executionTimeout": 4999}}': "policy.executionTimeout is 4999 ms",
    JOB + ', "policy": {"executionTimeout": 604800001}}': "policy.executionTimeout is 604800001 ms",
    JOB + ', "webhook": "http://x"}': "webhook .*use --webhook-url",
    JOB
    + ', "s3Config": {"accessSecret": "env:NO_SUCH_SECRET"}}': "NO_SUCH_SECRET, which no row may have unasked; if that is meant, add --allow-env NO_SUCH_SECRET",
    JOB + ', "s3Config": {"secret": "env:HOME"}}': 'no key "secret" in s3Config',
    '{"prompt": "a fox"}': "this line is a bare input .* line 1 is in job form",
}

LINES_OF_INPUTS = {
    '{"prompt": "a lighthouse", "custom_id": "a"}': "",
    '{"prompt": ': "not JSON",
    "[1]": "an array, not an object",
    "seven": "not JSON",
    '{"x": NaN}': "not JSON",
    '{"inputs": {"prompt": "a fox"}}': '"inputs": did you mean input',
    '{"custom_id": "o", "method": "POST", "url": "/v1/embeddings", "body": {}}': "a request of an OpenAI Batch file, and the first line does not",
    '{"a": 1} {"a": 2}': "not JSON",
    "{}": "the input is empty",
    '{"custom_id": "b"}': "the input is empty",
    '{"custom_id": "a", "prompt": "another"}': "custom_id 'a' stands on line 1 already",
    '{"custom_id": 7, "p": 1}': "custom_id",
    '{"custom_id": "", "p": 1}': "custom_id",
    json.dumps({"custom_id": "x" * 257, "p": 1}): "custom_id.* 256",
    json.dumps({"p": "x" * (10 * 1024 * 1024)}): "its request would have .* over the limit of 10,485,760",
    JOB + "}": "this line is in job form .* line 1 is a bare input",
}


@pytest.mark.parametrize("lines", [LINES_OF_JOBS, LINES_OF_INPUTS], ids=["jobs", "bare inputs"])
def test_every_bad_line_is_told_with_its_number(desk: Desk, service: Service, lines: Mapping[str, str]) -> None:
    desk.write("in.jsonl", "".join(f"{line}\n" for line in lines))

    ended = refused(desk, service, "in.jsonl", "--output", "out.jsonl")

    for number, says in enumerate(lines.values(), start=1):
        told = re.findall(rf"^(?:line \d+, )*line {number}(?:, line \d+)*: (.*)$", ended.stderr, re.MULTILINE)
        assert len(told) == bool(says), (number, says, ended.stderr)
        assert re.search(says, "".join(told)), (number, says, told)
    assert f"in.jsonl: {len(lines) - 1} problems; nothing was sent" in ended.stderr
    assert not (desk.folder / "out.jsonl").exists()


FILES = {
    "not UTF-8": Bad(b'{"prompt": "\xff"}\n', "line 1: .*UTF-8"),
    "UTF-16": Bad(GOOD.encode("utf-16"), "line 1: the file is UTF-16"),
    "gzip": Bad(b"\x1f\x8b\x08\x00\x00", "line 1: from here on it cannot be unpacked"),
    "CSV": Bad("id,prompt\n1,a fox\n2,a hen\n", "line 1: the file looks like CSV, not like JSON lines"),
    "an array": Bad('[\n{"prompt": "a fox"},\n{"prompt": "a hen"}\n', "element 2: the array ends too early"),
    "empty": Bad("", "the input is empty"),
    "blank lines only": Bad("\n\r\n  \n", "the input is empty"),
    "a byte order mark only": Bad(b"\xef\xbb\xbf", "the input is empty"),
}


@pytest.mark.parametrize("bad", FILES.values(), ids=FILES.keys())
def test_a_bad_file_is_refused(desk: Desk, service: Service, bad: Bad) -> None:
    desk.write("in.jsonl", bad.text)

    ended = refused(desk, service, "in.jsonl")

    assert re.search(bad.says, ended.stderr), ended.stderr
    assert "in.jsonl: 1 problem; nothing was sent" in ended.stderr


def test_a_literal_secret_is_refused_and_never_printed(desk: Desk, service: Service) -> None:
    config = {"accessId": SECRET, "accessSecret": SECRET, "bucketName": "b"}
    desk.write("in.jsonl", lines_of([{"input": {"p": 1}, "s3Config": config}]))

    ended = refused(desk, service, "in.jsonl")

    assert "line 1: s3Config.accessId must name an environment variable" in ended.stderr
    assert SECRET not in ended.stderr
    assert not any(SECRET.encode() in path.read_bytes() for path in desk.folder.iterdir() if path.name != "in.jsonl")


def test_a_row_may_name_no_variable_that_nobody_has_named_and_never_a_key_of_ours(desk: Desk, service: Service) -> None:
    config = {
        "accessId": "env:S3_ID",
        "accessSecret": "env:ORCHESTRATOR_API_KEY",
        "endpointUrl": "https://their.example",
    }
    good = {"input": {"p": 1}, "s3Config": {"accessId": "env:S3_ID", "accessSecret": "env:S3_SECRET"}}
    desk.write("in.jsonl", lines_of([good, {"input": {"p": 2}, "s3Config": config}]))
    environ = {"S3_ID": "the-id", "S3_SECRET": SECRET}

    nothing = refused(desk, service, "in.jsonl", environ=environ)
    assert "line 1: s3Config refers to S3_ID and S3_SECRET, which no row may have unasked" in nothing.stderr
    assert "add --allow-env S3_ID --allow-env S3_SECRET" in nothing.stderr
    allowed = refused(desk, service, "in.jsonl", "--allow-env", "S3_*", environ=environ)
    assert "line 1" not in allowed.stderr
    assert "line 2: s3Config refers to ORCHESTRATOR_API_KEY, a key of this program's own" in allowed.stderr
    assert "names no variables" in refused(desk, service, "in.jsonl", "--allow-env", "*", environ=environ).stderr


def test_of_many_bad_lines_twenty_are_shown_and_the_rest_is_counted(desk: Desk, service: Service) -> None:
    bad = [f'{{"input": 1, "x{n}": 1}}\n' for n in range(6_000)]  # more than one batch, each with another problem
    desk.write("in.jsonl", '{"input": {"p": 1}}\n' + "".join(each.replace("1, ", "{}, ", 1) for each in bad))

    ended = refused(desk, service, "in.jsonl")

    assert "in.jsonl: 6000 problems; nothing was sent" in ended.stderr.replace(",", "")
    assert re.findall(r"line (\d+):", ended.stderr) == [str(n) for n in range(2, 22)]
    assert "5980 more" in ended.stderr.replace(",", "")


def test_a_column_that_is_not_there_is_one_line_with_the_nearest_name(desk: Desk, service: Service) -> None:
    desk.write("in.csv", "sku,caption\n" + "1,a fox\n" * 300)
    for flags, told in (
        (("--id-field", "skus"), "there is no 'skus'; did you mean 'sku'? this row has sku, caption"),
        (("--input-field", "captions"), "there is no 'captions'; did you mean 'caption'? this row has sku, caption"),
        (
            ("--map", "p={{ row.kaption }}"),
            "p: there is no 'kaption'; did you mean 'caption'? this row has sku, caption",
        ),
    ):
        ended = refused(desk, service, "in.csv", *flags)
        lines = ended.stderr.splitlines()
        assert lines[-1] == f"line 2, line 3, line 4 and 297 more: {told}"
        assert lines[-2].endswith("in.csv: 300 problems; nothing was sent")


def test_what_was_refused_leaves_no_trace(desk: Desk, service: Service) -> None:
    desk.write("in.jsonl", GOOD + "oops\n")
    refused(desk, service, "in.jsonl")
    desk.write("in.jsonl", '{"prompt": "another"}\n')

    mended = desk.call("run", "in.jsonl", "--endpoint", "ep1", "--serverless-url", service.url, "--json")

    assert mended.exit_code == 0, mended
    assert mended.summary["jobs"]["total"] == 1
    assert service.accepted() == [{"prompt": "another"}]


ARGUMENTS = {
    "standard input without a name": Bad("-", "--name"),
    "no such file": Bad("nowhere.jsonl", "nowhere.jsonl: .*No such file"),
    "a folder": Bad(".", r"\."),
    "output is the input": Bad("in.jsonl --output in.jsonl", "--output and the input are the same file"),
    "output is the ledger": Bad("in.jsonl --output orchestrator.db", "--output and the ledger are the same file"),
    "output is part of the ledger": Bad("in.jsonl --output orchestrator.db-wal", "belongs to the ledger"),
    "errors are part of the ledger": Bad("in.jsonl --output a --errors orchestrator.db.key", "belongs to the ledger"),
    "output is the errors": Bad("in.jsonl --output a --errors a", "--errors and --output are the same file"),
    "output is a folder": Bad("in.jsonl --output folder", "is a folder"),
    "output in no folder": Bad("in.jsonl --output nowhere/out.jsonl", "folder .*nowhere does not exist"),
    "output below a file": Bad("in.jsonl --output in.jsonl/out.jsonl", "is not a folder"),
    "output that cannot be written": Bad("in.jsonl --output /sys/out.jsonl", "cannot write /sys/out.jsonl"),
    "ledger in no folder": Bad("in.jsonl --ledger nowhere/l.db", "nowhere"),
    "ledger is a text": Bad("in.jsonl --ledger notes.txt", "notes.txt: this file is not a ledger"),
    "errors without output": Bad("in.jsonl --errors e.jsonl", "--errors needs --output"),
    "a limit that is none": Bad("in.jsonl --limit run=fast", "'?run=fast'? is no limit"),
    "a limit of zero": Bad("in.jsonl --limit run=0/10", "limit allows 1 to"),
    "a limit of an unknown operation": Bad("in.jsonl --limit walk=1/1", "no operation"),
    "a duration that is none": Bad("in.jsonl --ttl soon", '"soon" is not a duration'),
    "a TTL too short": Bad("in.jsonl --ttl 5s", "policy.ttl is 5000 ms"),
    "an execution timeout too long": Bad("in.jsonl --execution-timeout 8d", "policy.executionTimeout is"),
    "no attempts": Bad("in.jsonl --max-attempts 0", "whole number from 1"),
    "an unknown way": Bad("in.jsonl --on-uncertain pray", "resubmit'?, '?hold'?, '?fail"),
    "a webhook URL without a listener": Bad("in.jsonl --webhook-url http://example.com", "needs --listen"),
    "an address that is none": Bad("in.jsonl --listen somewhere", "--listen"),
    "an unknown flag": Bad("in.jsonl --fast", "--fast"),
}


@pytest.mark.parametrize("bad", ARGUMENTS.values(), ids=ARGUMENTS.keys())
def test_a_bad_argument_is_refused(desk: Desk, service: Service, bad: Bad) -> None:
    desk.write("in.jsonl", GOOD)
    desk.write("notes.txt", "these are my notes\n" * 100)
    (desk.folder / "folder").mkdir()
    assert isinstance(bad.text, str)

    ended = refused(desk, service, *bad.text.split())

    assert re.search(bad.says, ended.stderr), ended.stderr
    assert (desk.folder / "in.jsonl").read_text() == GOOD
    assert (desk.folder / "notes.txt").read_text().startswith("these are my notes\n")


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
        "in.jsonl --endpoint local:caf\udce9.jsonl:work",
        "in.jsonl --endpoint ep1 --output caf\udce9",
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
        ("in.jsonl --endpoint ep1 --output circle", 2),
        ("in.jsonl --endpoint local:circle:work", 2),
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


def test_a_run_of_which_nothing_was_taken_in_is_none(desk: Desk, service: Service) -> None:
    desk.write("in.jsonl", GOOD + "oops\n")
    refused(desk, service, "in.jsonl")

    results = desk.call("results", "in")

    assert results.exit_code == 2, results
    assert "there is no run called 'in' here; there is: none" in results.stderr


def test_no_endpoint_and_no_key_are_refused(desk: Desk, service: Service) -> None:
    desk.write("in.jsonl", GOOD)

    no_endpoint = desk.call("run", "in.jsonl", "--serverless-url", service.url)
    check(no_endpoint, service)
    assert "--endpoint is missing" in no_endpoint.stderr

    no_key = refused(desk, service, "in.jsonl", environ={"ORCHESTRATOR_API_KEY": ""})
    assert "export ORCHESTRATOR_API_KEY" in no_key.stderr


def test_a_port_in_use_is_refused(desk: Desk, service: Service) -> None:
    desk.write("in.jsonl", GOOD)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"

        ended = refused(desk, service, "in.jsonl", "--listen", address)

    assert re.search(f"cannot listen on {address}: .*in use", ended.stderr), ended.stderr


@pytest.fixture
def held(desk: Desk, service: Service) -> Program:
    """A run of three jobs that are at the service and do not finish, stopped again: `prompts`."""
    service.change(hold=True)
    desk.inputs(3)
    program = desk.start("run", "prompts.jsonl", "--endpoint", "ep1", "--serverless-url", service.url)
    service.wait("accepted", 3)
    desk.until_outstanding(3)
    return program


def test_the_input_of_a_run_is_not_overwritten_under_another_name(desk: Desk, service: Service) -> None:
    desk.inputs(2)
    (desk.folder / "twin.jsonl").hardlink_to(desk.folder / "prompts.jsonl")
    here = ("--serverless-url", service.url)
    assert desk.call("run", "prompts.jsonl", "--endpoint", "ep1", *here).exit_code == 0

    ended = desk.call("resume", "prompts", "--output", "twin.jsonl")

    assert ended.exit_code == 2, ended
    assert "twin.jsonl: this is the input of the run 'prompts'" in ended.stderr


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


def test_the_name_of_another_run_is_refused_and_what_is_not_there_is_told(desk: Desk, service: Service) -> None:
    desk.inputs(2)
    here = ("--serverless-url", service.url)
    assert desk.call("run", "prompts.jsonl", "--endpoint", "ep1", *here).exit_code == 0
    (desk.folder / "other").mkdir()
    desk.write("other/prompts.jsonl", GOOD)
    requests = service.log()["counted"]

    others: dict[tuple[str, ...], str] = {
        ("run", "prompts.jsonl", "--endpoint", "ep2", *here): "is for the endpoint ep1",
        (
            "run",
            "prompts.jsonl",
            "--endpoint",
            "ep1",
            "--serverless-url",
            f"{service.url}/x",
        ): "is for the endpoint ep1",
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
        ("results", "nobody"): "there is no run called 'nobody' here; there is: prompts",
        ("results", "prompts", "--ledger", "nowhere.db"): "nowhere.db: there is no ledger here",
        ("status", "--ledger", "nowhere.db"): "nowhere.db: there is no ledger here",
        ("resume", "prompts", "--ledger", "nowhere.db"): "nowhere.db: there is no ledger here",
    }
    for command, says in missing.items():
        ended = desk.call(*command)
        assert (ended.exit_code, ended.stdout) == (2, "")
        assert says in ended.stderr

    assert service.log()["counted"] == requests
    assert not (desk.folder / "nowhere.db").exists()
