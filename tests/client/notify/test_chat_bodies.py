"""What chats are given: within their limits, and so that nobody is mentioned by what a run is called or says."""

import json
from typing import Any

import pytest

from orchestrator.client.notify.delivery import Outgoing
from orchestrator.client.notify.discord import CONTENT_CHARS_MAX, discord_body
from orchestrator.client.notify.slack import SECTION_CHARS_MAX, TEXT_CHARS_MAX, slack_body
from orchestrator.client.notify.teams import teams_body
from orchestrator.core.pipelines.message_text import Letter

NASTY = "<!here> @everyone <@U1> [x](https://evil.example) `rm` & *b*"
LINK = "https://jobs.example/find?run=a%20b"
LETTER = Letter(
    name="night",
    news="failed",
    title=f"night {NASTY} has failed",
    why=NASTY,
    figures=(("failed", "1,581"), ("spent", "3.12")),
    kinds=(f"1,581 × {NASTY}",),
    commands=("orchestrator retry night",),
    link=LINK,
)
LONG = Letter(
    name="n", news="failed", title="<&>" * 4_000, why="&" * 9_000, kinds=("<" * 9_000,) * 3, commands=("x" * 9_000,)
)


def outgoing(letter: Letter = LETTER, template: str | None = None) -> Outgoing:
    return Outgoing(number="msg_1", of="run 1", body=b"{}", letter=letter, template=template)


def test_slack_gets_a_text_and_blocks_in_which_nothing_mentions_anybody() -> None:
    body = json.loads(slack_body(outgoing()))
    texts = [block["text"]["text"] for block in body["blocks"]]
    for text in (body["text"], *texts[:-1]):
        assert "<" not in text
        assert ">" not in text
    assert "&lt;!here&gt;" in body["text"]
    assert texts[-1] == f"<{LINK}|Look>"
    assert "1,581" in body["text"]
    assert {block["type"] for block in body["blocks"]} == {"section"}


@pytest.mark.parametrize("template", [None, "{title} {why} {kinds}"])
def test_slack_gets_no_more_than_it_takes(template: str | None) -> None:
    body = json.loads(slack_body(outgoing(LONG, template)))
    assert len(body["text"]) <= TEXT_CHARS_MAX
    for block in body["blocks"]:
        assert 0 < len(block["text"]["text"]) <= SECTION_CHARS_MAX
        assert not block["text"]["text"].rstrip("`").endswith(("&", "&l", "&lt", "&g", "&am", "&amp"))


def test_discord_gets_a_content_that_mentions_nobody() -> None:
    body = json.loads(discord_body(outgoing()))
    assert body["allowed_mentions"] == {"parse": []}
    assert "orchestrator retry night" in body["content"]
    assert "[x](https" not in body["content"]
    assert f"<{LINK}>" in body["content"]
    long = json.loads(discord_body(outgoing(LONG)))
    assert len(long["content"]) <= CONTENT_CHARS_MAX
    assert json.loads(discord_body(outgoing(template="{name}: {news}")))["content"] == "night: failed"


def test_teams_gets_a_message_with_one_adaptive_card() -> None:
    body = json.loads(teams_body(outgoing()))
    [attachment] = body["attachments"]
    assert body["type"] == "message"
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    card: dict[str, Any] = attachment["content"]
    assert (card["type"], card["actions"][0]["url"]) == ("AdaptiveCard", LINK)
    facts = next(block for block in card["body"] if block["type"] == "FactSet")
    assert {"title": "failed", "value": "1,581"} in facts["facts"]
    assert "[x](https" not in json.dumps(card["body"])
    assert card["body"][0]["color"] == "Attention"
    assert len(teams_body(outgoing(LONG))) < 28_000
    assert (
        json.loads(teams_body(outgoing(template="{name}")))["attachments"][0]["content"]["body"][0]["text"] == "night"
    )
