"""Tries the tools' calls. `python -m tests.tools [--record] [--folder FOLDER]`

It needs pip and npm with their registries. A folder that was used before is used as it is, and nothing is installed.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import AsyncIterator, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import anyio

from orchestrator.emulator.serving import serve
from orchestrator.emulator.workers.handlers import AGGREGATE, HandlerInput

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PAGE = ROOT / "docs" / "reference" / "tools.md"
BEGIN, END = "<!-- tried: begin -->\n", "<!-- tried: end -->\n"

PYTHON_PACKAGES = ("runpod<2", "runpod-flash", "openai")
NODE_PACKAGES = ("runpod-sdk", "@runpod/ai-sdk-provider", "ai", "@runpod/mcp-server")

PICTURE = "data:image/png;base64,iVBORw0KGgo="
SOUND = "data:audio/wav;base64,UklGRgAAAABXQVZF"
ANSWER = "hi there"

WHY_CHARS_MAX = 120
"""So much of a reason stands in the table."""


class Tool(NamedTuple):
    """A tool by the package that it comes in, and the program that tries its calls."""

    package: str
    program: str

    @property
    def is_python(self) -> bool:
        return self.program.endswith(".py")


TOOLS = (
    Tool("runpod", "python_sdk.py"),
    Tool("runpod-flash", "flash.py"),
    Tool("openai", "openai_package.py"),
    Tool("runpod-sdk", "js_sdk.mjs"),
    Tool("@runpod/ai-sdk-provider", "ai_sdk.mjs"),
    Tool("@runpod/mcp-server", "mcp.mjs"),
)


async def double(job: HandlerInput) -> object:
    return {"double": 2 * job["input"]["n"]}


async def count(job: HandlerInput) -> AsyncIterator[object]:
    for n in range(job["input"]["n"]):
        yield {"n": n}


async def media(_job: HandlerInput) -> object:
    return {"image_url": PICTURE, "audio_url": SOUND, "text": ANSWER}


async def llm(job: HandlerInput) -> AsyncIterator[object]:
    """As the official language-model worker: a stream of events of its own, or one document."""
    route, asked = job["input"]["openai_route"], job["input"]["openai_input"]
    head = {"id": "c", "created": 1, "model": "m"}
    if route.endswith("/models"):
        yield {"object": "list", "data": [{"id": "m", "object": "model", "created": 1, "owned_by": "me"}]}
    elif not route.endswith("/chat/completions"):
        choice = {"index": 0, "text": ANSWER, "finish_reason": "stop", "logprobs": None}
        yield {**head, "object": "text_completion", "choices": [choice]}
    elif asked.get("stream"):
        for part in ("hi", " there"):
            delta = {"index": 0, "delta": {"role": "assistant", "content": part}, "finish_reason": None}
            event = {**head, "object": "chat.completion.chunk", "choices": [delta]}
            yield f"data: {json.dumps(event)}\n\n"
        yield "data: [DONE]\n\n"
    else:
        message = {"role": "assistant", "content": ANSWER}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        yield {**head, "object": "chat.completion", "choices": [choice]}


setattr(llm, AGGREGATE, True)


def install(folder: Path) -> None:
    """The newest of each package, in `folder`."""
    if not (folder / "python").exists():
        venv.create(folder / "python", with_pip=True)
        packages = [*PYTHON_PACKAGES]
        subprocess.run([str(_python(folder)), "-m", "pip", "install", "--quiet", *packages], check=True)
    if not (folder / "node_modules").exists():
        (folder / "package.json").write_text('{"private": true, "type": "module"}\n', encoding="utf-8")
        command = ["npm", "install", "--no-audit", "--no-fund", "--loglevel=error", *NODE_PACKAGES]
        subprocess.run(command, cwd=folder, check=True)
    for program in HERE.glob("*.mjs"):
        (folder / program.name).write_bytes(program.read_bytes())


def _python(folder: Path) -> Path:
    return folder / "python" / "bin" / "python"


async def tried(tool: Tool, folder: Path, *, strict: bool) -> dict[str, str]:
    """Each call of the tool, and why it does not work; empty where it does."""
    endpoints = {"llm": llm, "ep": double, "count": count, "media": media}
    async with serve(
        endpoints=endpoints, any_endpoint=True, keys=("the-key",), strict=strict, propagation_s=0.0
    ) as service:
        environment = {**os.environ, **service.environment(), "HOME": str(folder), "PYTHONPATH": str(ROOT)}
        interpreter = str(_python(folder)) if tool.is_python else "node"
        program = str(HERE / tool.program) if tool.is_python else tool.program
        with anyio.fail_after(120):
            ended = await anyio.run_process([interpreter, program], cwd=folder, env=environment, check=False)
    if ended.returncode:
        sys.exit(f"{tool.program} ended with {ended.returncode}:\n{ended.stderr.decode()}")
    lines = [json.loads(line) for line in ended.stdout.decode().splitlines() if line.startswith("{")]
    return {line["call"]: line["why"] for line in lines}


def version(tool: Tool, folder: Path) -> str:
    """Of the package that was installed."""
    if tool.is_python:
        asked = f"from importlib.metadata import version; print(version({tool.package!r}))"
        command = [str(_python(folder)), "-c", asked]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    package: Mapping[str, str] = json.loads((folder / "node_modules" / tool.package / "package.json").read_text())
    return package["version"]


def rows(tool: Tool, folder: Path) -> list[str]:
    """The rows of a tool: its calls, against both."""
    plain, strict = (anyio.run(partial(tried, tool, folder, strict=each)) for each in (False, True))
    of = version(tool, folder)
    return [
        f"| `{tool.package}` {of} | `{call}` | {_told(why)} | {_told(strict.get(call, 'not reached'))} |"
        for call, why in plain.items()
    ]


def _told(why: str) -> str:
    return "works" if not why else " ".join(why.replace("|", "/").split())[:WHY_CHARS_MAX]


def main(arguments: list[str] | None = None) -> int:
    """The exit code: 0 where all was tried."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools", description=__doc__)
    parser.add_argument("--record", action="store_true", help="write the table of docs/reference/tools.md")
    parser.add_argument("--folder", type=Path, help="where the tools are, or are to be; default: a scratch folder")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="tools-") as scratch:
        folder = (given.folder or Path(scratch)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        install(folder)
        found = [row for tool in TOOLS for row in rows(tool, folder)]
    table = "\n".join(["| Tool | Call | `emulate` | `emulate --strict` |", "|---|---|---|---|", *found]) + "\n"
    print(table)
    if given.record:
        page = PAGE.read_text(encoding="utf-8")
        before, _, rest = page.partition(BEGIN)
        PAGE.write_text(before + BEGIN + table + END + rest.partition(END)[2], encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
