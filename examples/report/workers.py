"""What stands for the endpoints: a model that captions, one that embeds, one that takes a mean."""

from typing import Any

Job = dict[str, Any]


def caption(job: Job) -> dict[str, Any]:
    """Some sentences about a prompt."""
    prompt = job["input"]["prompt"]
    return {"text": f"This is {prompt}. There is nobody in it."}


def embed(job: Job) -> dict[str, Any]:
    """Two numbers for a text."""
    text = job["input"]["text"]
    return {"vector": [len(text), text.count(" ")]}


def mean(job: Job) -> dict[str, Any]:
    """Of several vectors."""
    vectors = job["input"]["vectors"]
    return {"vector": [sum(numbers) / len(vectors) for numbers in zip(*vectors, strict=True)]}
