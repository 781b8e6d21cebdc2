"""Tokens are added up each for itself."""

from orchestrator.core.batch_api.token_usage import TokenUsage


def test_each_kind_of_tokens_is_added_up_for_itself() -> None:
    one, other = (
        TokenUsage(input=1, cached=2, output=3, reasoning=4),
        TokenUsage(input=10, cached=20, output=30, reasoning=40),
    )
    assert one + other == TokenUsage(input=11, cached=22, output=33, reasoning=44)
