"""Handlers for the embedded emulator, written as for the service's official worker.

    orchestrator run examples/prompts.jsonl --endpoint local:examples/handlers.py:caption
    orchestrator emulate --port 8900 --handler examples/handlers.py:caption --workers 8

A handler takes the job (`job["id"]`, `job["input"]`) and returns what becomes the job's `output`. It may be a plain
function (each worker runs it in a thread) or an async one. What it raises fails the execution.
"""

import asyncio
import base64
import random
import struct
import time
import zlib
from typing import Any

SECONDS_MIN, SECONDS_MAX = 0.02, 0.12
PIXELS = 64

_stumbled: set[str] = set()


async def caption(job: dict[str, Any]) -> dict[str, Any]:
    """Pretends to describe a picture. Every hundredth prompt runs out of memory the first time, as models do."""
    prompt = job["input"]["prompt"]
    await asyncio.sleep(random.uniform(SECONDS_MIN, SECONDS_MAX))  # noqa: TID251  a made-up model may roll dice
    if prompt.endswith("00") and prompt not in _stumbled:
        _stumbled.add(prompt)
        raise MemoryError("CUDA out of memory (not really)")
    return {"caption": f"A picture of {prompt}", "tokens": len(prompt.split())}


def captions(job: dict[str, Any]) -> list[dict[str, Any]]:
    """The same of several pictures at once, as `--chunk 16` sends them: as many outputs, in the same order."""
    prompts = [row["prompt"] for row in job["input"]["items"]]
    time.sleep(SECONDS_MIN)
    return [{"caption": f"A picture of {prompt}", "tokens": len(prompt.split())} for prompt in prompts]


def shout(job: dict[str, Any]) -> str:
    """A plain function works as well."""
    time.sleep(SECONDS_MIN)
    return str(job["input"]["prompt"]).upper()


def chat(job: dict[str, Any]) -> dict[str, Any]:
    """Pretends to be a language model's worker: it takes requests as OpenAI's interface has them."""
    asked = job["input"]["openai_input"]
    question: str = asked["messages"][-1]["content"]
    answer = f"You said: {question}"
    taken, made = len(question.split()), len(answer.split())
    return {
        "object": "chat.completion",
        "model": asked["model"],
        "choices": [{"index": 0, "message": {"role": "assistant", "content": answer}}],
        "usage": {"prompt_tokens": taken, "completion_tokens": made, "total_tokens": taken + made},
    }


def picture(job: dict[str, Any]) -> dict[str, Any]:
    """Pretends to paint: a PNG of one colour, of which `--save 'output.image=out/{custom_id}.png'` makes a file."""
    colour = zlib.crc32(str(job["input"]["prompt"]).encode()).to_bytes(4, "big")[:3]
    rows = zlib.compress((b"\0" + colour * PIXELS) * PIXELS)
    head = struct.pack(">2I5B", PIXELS, PIXELS, 8, 2, 0, 0, 0)
    png = b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", head) + _chunk(b"IDAT", rows) + _chunk(b"IEND", b"")
    return {"image": base64.b64encode(png).decode(), "width": PIXELS}


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
