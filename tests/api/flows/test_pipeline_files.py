"""A pipeline's file: what it becomes, and what is wrong with it, each with its line."""

from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.api.flows.pipeline_files import PROBLEMS_MAX, read_pipeline
from orchestrator.api.flows.stage_settings import stage_choices
from orchestrator.core.pipelines.pipeline import INPUT, News, Overlap, Pipeline, Schedule, Stage
from orchestrator.core.text.durations import Policy
from orchestrator.errors import UsageError
from orchestrator.settings import command_flags, connection_settings, pipeline_keys
from orchestrator.settings.run_settings import RunSettings
from orchestrator.settings.words_and_defaults import OnExpired
from orchestrator.units import HOUR_US, MINUTE_US

NOW = 1_806_000_000_000_000

SHORTEST = """name = "captions"
input = "in.jsonl"

[stage.caption]
endpoint = "abc123"
"""

WHOLE = """name="captions"
input="inbox/{previous:%Y-%m-%d}.jsonl"
wait-for-input="2h"
keep="90d"
[schedule]
cron=["30 2 * * 1-5", "30 2 * * 0,6"]
zone="Europe/Berlin"
jitter="5m"
overlap="replace"
parallel=2
catch-up="25h"
late-after="90m"
pause-after-failures=3
[stage.caption]
endpoint="abc123"
max-failed="5%"
reuse="30d"
reuse-version="model-4"
max-attempts=5
ttl="2h"
queue-depth=500
low-priority=true
check="steps.py:to_texts"
price-per-second=0.00025
map=["prompt={{ row.title }}"]
[stage.embed]
from="caption"
step="steps.py:to_texts"
endpoint="local:steps.py:to_texts"
output="out/{previous:%Y-%m-%d}.jsonl"
[stage.report]
from=["caption","embed"]
needs="99.5%"
command=["python","report.py","{file:caption}","{file:embed}"]
[notify]
on=["held","done"]
url="https://example.org/hook"
secret="env:HOOK_SECRET"
"""


@pytest.fixture
def read(tmp_path: Path) -> Callable[[str], Pipeline]:
    """Reads a pipeline's file of that text, beside which there is `steps.py`."""
    (tmp_path / "steps.py").write_text("def to_texts(row):\n    return row\n\n\nNUMBER = 1\n")

    def of(text: str) -> Pipeline:
        (tmp_path / "captions.toml").write_text(text)
        return read_pipeline(tmp_path / "captions.toml", NOW)

    return of


@pytest.fixture
def refused(read: Callable[[str], Pipeline], tmp_path: Path) -> Callable[[str], list[str]]:
    """What is wrong with a file of that text, from the number of the line on."""

    def of(text: str) -> list[str]:
        with pytest.raises(UsageError) as raised:
            read(text)
        return [line.removeprefix(f"{tmp_path / 'captions.toml'}:") for line in str(raised.value).splitlines()]

    return of


def test_what_is_not_said_has_its_default(read: Callable[[str], Pipeline], tmp_path: Path) -> None:
    stage = Stage(name="caption", from_=(INPUT,), settings={"endpoint": ("abc123",)})
    assert read(SHORTEST) == Pipeline(name="captions", folder=str(tmp_path), input="in.jsonl", stages=(stage,))
    assert read(SHORTEST + '[schedule]\nevery="6h"').schedule == Schedule(every_us=6 * HOUR_US)


def test_everything_that_can_be_said_is_read(read: Callable[[str], Pipeline], tmp_path: Path) -> None:
    given = read(WHOLE)

    assert (given.wait_for_input_us, given.keep_us) == (2 * HOUR_US, 90 * 24 * HOUR_US)
    assert given.schedule == Schedule(
        cron=("30 2 * * 1-5", "30 2 * * 0,6"),
        zone="Europe/Berlin",
        jitter_us=5 * MINUTE_US,
        overlap=Overlap.REPLACE,
        parallel=2,
        catch_up_us=25 * HOUR_US,
        late_after_us=90 * MINUTE_US,
        pause_after_failures=3,
    )
    caption, embed, report = given.stages
    assert (caption.settings["queue-depth"], caption.settings["price-per-second"]) == (("500",), ("0.00025",))
    assert (caption.max_failed, caption.reuse_us, caption.reuse_version) == (50_000, 30 * 24 * HOUR_US, "model-4")
    assert (embed.from_, embed.step, embed.gather) == (("caption",), "steps.py:to_texts", None)
    assert embed.settings["endpoint"] == (f"local:{tmp_path}/steps.py:to_texts",)
    assert (report.from_, report.needs, report.command[0]) == (("caption", "embed"), 995_000, "python")
    assert given.notify is not None
    assert given.notify.on == (News.DONE, News.ON_HOLD)


def test_the_settings_of_a_stage_are_those_of_its_run(read: Callable[[str], Pipeline]) -> None:
    text = SHORTEST + 'max-attempts=5\nttl="2h"\non_expired="fail"\nlow-priority=true\nrequire-output=true\n'
    assert stage_choices(read(text).stages[0]).run_settings() == RunSettings(
        max_attempts=5,
        policy=Policy(ttl_ms=7_200_000, low_priority=True),
        on_expired=OnExpired.FAIL,
        output_required=True,
    )


def test_a_stage_takes_each_setting_that_is_a_run_s_own() -> None:
    of_process = {setting.key for setting in command_flags.RUN} - {each.key for each in pipeline_keys.STAGE_RUN}
    assert of_process == {
        *(each.key for each in connection_settings.TRANSPORT),
        *(
            "ledger",
            "config",
            "name",
            "overwrite",
            "afresh",
            "replace-input",
            "reuse",
            "retry-failed",
            "give-up-after",
            "max-failures",
            "pod-template",  # `endpoint = "pods:NAME"` says it
        ),
        *("dry-run", "dashboard", "detach", "log-file", "log-format", "json", "quiet", "notify"),
    }


def test_stages_stand_in_the_order_in_which_rows_come(read: Callable[[str], Pipeline]) -> None:
    text = SHORTEST.replace(
        "[stage.caption]", '[stage.embed]\nendpoint="def"\nfrom="caption"\n[stage.caption]\nfrom="input"'
    )
    assert [stage.name for stage in read(text).stages] == ["caption", "embed"]


@pytest.mark.parametrize(
    ("changed", "to", "expected"),
    [
        ('name = "captions"', "", ' the pipeline has no name; write name = "..."'),
        ('name = "captions"', 'name = "a b"', '1: name: "a b" is no name'),
        ("input =", "imput =", '2: imput: there is no key "imput"; did you mean input?'),
        ('input = "in.jsonl"', "", " write either input or input-command"),
        ('"in.jsonl"', '"in.jsonl"\ninput-command=["cat"]', " write either input or input-command"),
        ('input = "in.jsonl"', "input-command=[]", "2: input-command: this is no command"),
        ("in.jsonl", "{prev:%Y}", "2: input: there is no placeholder {prev:%Y}; did you mean previous?"),
        ("in.jsonl", "", "2: input: this is no file name"),
        ("in.jsonl", "{file:caption}", "2: input: {file:caption} is for a command that has caption in its from"),
        ('"in.jsonl"', "5", "2: input: this must be text"),
        ("[stage.caption]", "[schedule]\n[stage.caption]", "4: schedule: write either cron or every"),
        (
            "[stage.caption]",
            '[schedule]\ncron="* * *"\n[stage.caption]',
            '5: schedule.cron: "* * *" has not five fields',
        ),
        ("[stage.caption]", '[schedule]\ncron="0 0 30 2 *"\n[stage.caption]', "5: schedule.cron: "),
        ("[stage.caption]", '[schedule]\nevery="0s"\n[stage.caption]', "5: schedule.every: it fires at whole seconds"),
        (
            "[stage.caption]",
            '[schedule]\nevery="1h"\noffset="2h"\n[stage.caption]',
            "6: schedule.offset: the offset is part of every",
        ),
        (
            "[stage.caption]",
            '[schedule]\ncron="0 1 * * *"\nevery="1h"\n[stage.caption]',
            "6: schedule.every: write either cron or every",
        ),
        (
            "[stage.caption]",
            '[schedule]\nevery="1h"\nzone="Europe/Berln"\n[stage.caption]',
            '6: schedule.zone: there is no time zone "Europe/Berln"; did you mean Europe/Berlin?',
        ),
        (
            "[stage.caption]",
            '[schedule]\nevery="1h"\nzone="xyzzy"\n[stage.caption]',
            '6: schedule.zone: there is no time zone "xyzzy"; write it as Europe/Berlin',
        ),
        (
            "[stage.caption]",
            '[schedule]\nevery="1h"\njitter="31m"\n[stage.caption]',
            "6: schedule.jitter: it is longer than",
        ),
        (
            "[stage.caption]",
            '[schedule]\nevery="1h"\n[stage.caption]\noutput="out.jsonl"',
            "7: stage.caption.output: ",
        ),
        ("[stage.caption]", "schedule=1\n[stage.caption]", "4: schedule: this must be a table: [schedule]"),
        ('[stage.caption]\nendpoint = "abc123"', "", " the pipeline has no stage"),
        ('[stage.caption]\nendpoint = "abc123"', "[stage]\ncaption=1", "5: stage.caption: this must be a table"),
        ("[stage.caption]", "[stage.all]", "4: stage.all: all means something else here"),
        ("[stage.caption]", '[stage."a b"]', '4: stage.a b: "a b" is no name'),
        ("endpoint =", "endpont =", '5: stage.caption.endpont: there is no key "endpont"; did you mean endpoint?'),
        ("endpoint =", "api-key =", "5: stage.caption.api-key: it cannot be set here; keep the key out of files"),
        ("endpoint =", "zzz =", '5: stage.caption.zzz: there is no key "zzz"; there are from, step'),
        ('endpoint = "abc123"', "", "4: stage.caption: a stage has either an endpoint or a command"),
        ("endpoint", "listen=':80'\nendpoint", "5: stage.caption.listen: this belongs to the process that serves"),
        ("endpoint", "ttl='1s'\nendpoint", "5: stage.caption.ttl: policy.ttl is 1000 ms"),
        ("endpoint", "output='-'\nendpoint", "5: stage.caption.output: a flow has no standard output"),
        ("endpoint", "max-failed='5'\nendpoint", '5: stage.caption.max-failed: "5" is no share'),
        ("endpoint", "max-failed='101%'\nendpoint", '5: stage.caption.max-failed: "101%" is no share'),
        ("endpoint", "step='steps'\nendpoint", '5: stage.caption.step: "steps" names no function'),
        ("endpoint", "step='steps.py:no'\nendpoint", "5: stage.caption.step: step "),
        (
            "endpoint",
            "reuse-version='2'\nendpoint",
            "5: stage.caption.reuse-version: it is for reuse, which is missing",
        ),
        (
            "endpoint",
            "from='captoin'\nendpoint",
            '5: stage.caption.from: there is no stage "captoin"; did you mean caption?',
        ),
        ("endpoint", "from=['input','caption']\nendpoint", "5: stage.caption.from: rows of the input and of a stage"),
        ("endpoint", "from='caption'\nendpoint", " caption hand over to each other in a circle"),
        ("endpoint", "gather='all'\nendpoint", "5: stage.caption.gather: the first stage is handed"),
        ("endpoint", "map=['p={{ row.']\nendpoint", "5: stage.caption.map: map= p={{ row.: this is no template"),
        (
            "[stage.caption]",
            "[stage.embed]\nendpoint='def'\nfrom='caption'\nformat='csv'\n[stage.caption]\nfrom='input'",
            "7: stage.embed.format: it says how the input is read, and this stage does not read it",
        ),
        ("[stage.caption]", "[notify]\n[stage.caption]", "4: notify: write to, url or command"),
        ("[stage.caption]", "[notify]\nurl='ftp://x'\n[stage.caption]", "5: notify.url: this is no URL"),
        ("[stage.caption]", "[notify]\nurl='https:///p'\n[stage.caption]", "5: notify.url: this is no URL"),
        ("[stage.caption]", "[notify]\nurl='https://x:p/'\n[stage.caption]", "5: notify.url: this is no URL"),
        ("[stage.caption]", "[notify]\nurl='https://x/ä'\n[stage.caption]", "5: notify.url: this is no URL"),
        ("[stage.caption]", "[notify]\ncommand=['mail', '{flow}']\n[stage.caption]", "5: notify.command: placeholders"),
        (
            "[stage.caption]",
            "[notify]\ncommand=['mail']\nsecret='env:X'\n[stage.caption]",
            "6: notify.secret: it signs what is posted to a url",
        ),
        (
            "[stage.caption]",
            "[notify]\nurl='https://x'\nsecret='hunter2'\n[stage.caption]",
            "6: notify.secret: write env:NAME",
        ),
        ('"abc123"', '"https://x"', "4: stage.caption: https://x is a URL, and what is there has no queue"),
        ('"abc123"', '"https://x?a"', "5: stage.caption.endpoint: the URL of an endpoint has no query"),
        ('"abc123"', '"abc123"\nvia="http"', "4: stage.caption: via http is for a server at a URL, and abc123 is none"),
        ('"abc123"', '"https://x"\nvia="http"\nttl="1h"', "4: stage.caption: ttl is for jobs in the service's queue"),
        (
            "[stage.caption]",
            "[notify]\nurl='https://x'\non='don'\n[stage.caption]",
            '6: notify.on: "don" is none of started, done, partial, failed, held, late, missed, paused',
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_line_and_key(
    refused: Callable[[str], list[str]], changed: str, to: str, expected: str
) -> None:
    assert changed in SHORTEST
    assert any(line.startswith(expected) for line in refused(SHORTEST.replace(changed, to, 1)))


def test_a_secret_that_stands_in_the_file_is_not_repeated(refused: Callable[[str], list[str]]) -> None:
    assert "hunter2" not in "".join(refused(SHORTEST + "[notify]\nurl='https://x'\nsecret='hunter2'\n"))


def test_all_that_is_wrong_is_told_at_once_in_the_order_of_the_file(refused: Callable[[str], list[str]]) -> None:
    found = refused(SHORTEST.replace("in.jsonl", "{day}").replace("endpoint", "endpont"))
    assert [line.partition(":")[0] for line in found] == ["2", "4", "5"]


def test_very_much_that_is_wrong_is_counted(refused: Callable[[str], list[str]]) -> None:
    found = refused(SHORTEST + "".join(f"wrong-{n} = 1\n" for n in range(PROBLEMS_MAX + 5)))
    assert len(found) == PROBLEMS_MAX + 1
    assert found[-1] == "... and 5 more"


@pytest.mark.parametrize(("text", "why"), [("name =", "this is not TOML"), (None, "cannot be read")])
def test_a_file_that_cannot_be_read_is_told(tmp_path: Path, text: str | None, why: str) -> None:
    path = tmp_path / "captions.toml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UsageError, match=why):
        read_pipeline(path, NOW)
