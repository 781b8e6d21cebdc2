"""Tokens that requests have taken, as OpenAI's interface adds them up for a batch."""

import msgspec


class TokenUsage(msgspec.Struct, frozen=True, kw_only=True):
    """How many: those of inputs, of which some were `cached`, and those of outputs, some of them for `reasoning`."""

    input: int = 0
    cached: int = 0
    output: int = 0
    reasoning: int = 0

    def __add__(self, other: "TokenUsage") -> "TokenUsage":
        return TokenUsage(
            input=self.input + other.input,
            cached=self.cached + other.cached,
            output=self.output + other.output,
            reasoning=self.reasoning + other.reasoning,
        )
