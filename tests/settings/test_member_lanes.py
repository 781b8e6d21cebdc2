"""Pools whose members have lanes of their own: what is said of all of them, and which lanes go together."""

import pytest
from msgspec.structs import replace

from orchestrator.api.runs.settings_check import check_run_endpoint
from orchestrator.core.lanes.via import Via
from orchestrator.core.pools.member import MemberSettings
from orchestrator.core.text.durations import Policy
from orchestrator.errors import UsageError
from orchestrator.settings.run_checks import check_together
from orchestrator.settings.run_settings import RunSettings

QUEUE = MemberSettings("abc")
SERVER = MemberSettings("https://server", via=Via.HTTP, path="/generate")
MODEL = MemberSettings("https://model", via=Via.OPENAI)
TTL = Policy(ttl_ms=60_000)


def check(settings: RunSettings, *members: MemberSettings) -> None:
    settings = replace(settings, members=members)
    check_together(settings, str)
    check_run_endpoint(settings, members[0].endpoint, members)


def test_what_is_said_of_a_member_goes_before_what_is_said_of_all() -> None:
    settings = RunSettings(via=Via.SYNC, members=(QUEUE, SERVER, replace(QUEUE, endpoint="def", via=Via.BOTH)))
    assert settings.at("abc") is settings.at("elsewhere") is settings
    assert (settings.at("https://server").via, settings.at("https://server").path) == (Via.HTTP, "/generate")
    assert settings.at("def") == replace(settings, via=Via.BOTH)
    assert settings.vias == (Via.SYNC, Via.HTTP, Via.BOTH)
    alone = RunSettings(via=Via.BOTH)
    assert (alone.at("abc"), alone.vias) == (alone, (Via.BOTH,))


@pytest.mark.parametrize(
    ("settings", "members"),
    [
        (RunSettings(), (QUEUE, SERVER)),
        (RunSettings(via=Via.OPENAI), (QUEUE, MemberSettings("https://model"))),
        (RunSettings(policy=TTL), (QUEUE, SERVER)),
        (RunSettings(via=Via.HTTP, path="/work"), (MemberSettings("abc", via=Via.BOTH), MemberSettings("https://x"))),
        (RunSettings(), (MemberSettings("abc", via=Via.SYNC), QUEUE, MODEL, MemberSettings("local:f.py:f"))),
    ],
)
def test_members_may_each_have_a_lane(settings: RunSettings, members: tuple[MemberSettings, ...]) -> None:
    check(settings, *members)


@pytest.mark.parametrize(
    ("settings", "members", "why"),
    [
        (
            RunSettings(),
            (QUEUE, SERVER, MODEL),
            "via openai of https://model takes requests of OpenAI's interface, and",
        ),
        (RunSettings(via=Via.OPENAI), (QUEUE, SERVER), "and via http of https://server an input as it stands"),
        (RunSettings(), (QUEUE, MemberSettings("https://x")), "https://x is a URL, and what is there has no queue"),
        (RunSettings(via=Via.HTTP), (QUEUE, SERVER), "--via http is for a server at a URL, and abc is none"),
        (RunSettings(via=Via.BATCH), (QUEUE, MODEL), "--via batch is for a run at one endpoint"),
        (
            RunSettings(),
            (QUEUE, MemberSettings("def", via=Via.BATCH)),
            "with --finish-by: what would be late leaves by /run there",
        ),
        (RunSettings(resumable=True), (QUEUE, SERVER), "and via http of https://server goes past it"),
        (RunSettings(stream=True), (QUEUE, MODEL), "and via openai of https://model goes past it"),
        (
            RunSettings(resumable=True),
            (QUEUE, MemberSettings("def", via=Via.SYNC)),
            "and via sync of def for short ones",
        ),
        (RunSettings(policy=TTL), (SERVER, MemberSettings("https://x", via=Via.HTTP)), "--ttl is for jobs in the"),
        (RunSettings(path="/work"), (QUEUE, MODEL), "--path is for --via http"),
        (RunSettings(), (MemberSettings("abc", path="/x"), SERVER), 'the path of abc is for via = "http"'),
    ],
)
def test_what_does_not_go_together_is_refused(
    settings: RunSettings, members: tuple[MemberSettings, ...], why: str
) -> None:
    with pytest.raises(UsageError) as refused:
        check(settings, *members)
    assert why in str(refused.value)
