"""Who is told of what, as it is written."""

import pytest

from orchestrator.core.pipelines.pipeline import News, Notify
from orchestrator.core.pipelines.receivers import (
    NEWS_WORDS,
    Receiver,
    is_receiver,
    parse_receiver,
    receivers_for,
    receivers_of_pipeline,
    receivers_of_run,
    written_out,
)
from orchestrator.core.pipelines.run_messages import RunNews


@pytest.mark.parametrize(
    ("text", "receiver"),
    [
        ("ops", Receiver("ops")),
        ("on-call_2:failed", Receiver("on-call_2", ("failed",))),
        ("ops:will-miss,held", Receiver("ops", ("will-miss", "held"))),
    ],
)
def test_a_target_is_its_name_and_perhaps_what_it_is_told_of(text: str, receiver: Receiver) -> None:
    assert is_receiver(text)
    assert parse_receiver(text) == receiver


@pytest.mark.parametrize(
    "text", ["", "env:HOOK", "https://x.example/", "./tell.sh", "tell me", "2nd", "ops:", "ops:failed,", f"{'a' * 41}"]
)
def test_what_is_no_target_is_refused(text: str) -> None:
    assert not is_receiver(text)
    with pytest.raises(ValueError, match="is no target"):
        parse_receiver(text)


def test_what_nobody_tells_of_is_refused_with_what_there_is() -> None:
    with pytest.raises(ValueError, match='"falied" is none of started, done'):
        parse_receiver("ops:falied")
    assert set(NEWS_WORDS) == {*map(str, News), *map(str, RunNews)}


def test_a_run_tells_whoever_stands_in_a_line_of_its_own() -> None:
    notify = "ops:failed\nhttps://hooks.example/x\nmail"
    assert receivers_of_run(notify) == (Receiver("ops", ("failed",)), Receiver(""), Receiver("mail"))
    assert written_out(notify) == "https://hooks.example/x"
    assert (receivers_of_run(None), written_out(None), written_out("ops")) == ((), None, None)


def test_who_is_not_told_of_all_is_told_of_what_is_said_and_of_a_start_only_who_asks() -> None:
    told = receivers_of_run("ops:failed\nhttps://hooks.example/x\nmail\nmail:failed")
    assert receivers_for(told, "failed") == ("ops", "", "mail")
    assert receivers_for(told, "started") == ("mail",), "the target itself says whether it wants that"


def test_what_a_pipeline_says_is_told_of_counts_for_targets_that_say_nothing_else() -> None:
    told = receivers_of_pipeline(Notify(on=(News.FAILED,), to=("ops", "mail:done"), url="https://hooks.example/"))
    assert told == (Receiver("", ("failed",)), Receiver("ops", ("failed",)), Receiver("mail", ("done",)))
    assert receivers_of_pipeline(Notify(to=("ops",))) == (Receiver("ops"),)
    assert receivers_of_pipeline(Notify(command=("tell",))) == (Receiver(""),)
    assert receivers_of_pipeline(None) == ()
