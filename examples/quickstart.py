"""The main job from Python: a file of inputs in, a file of results out.

It needs no account: the endpoint is a function of ours, run by the embedded emulator. For the real service give an
endpoint's id instead, and the API key:

    RunRequest(..., endpoint="abc123", connection=ConnectionSettings(api_key=os.environ["ORCHESTRATOR_API_KEY"]))
"""

import tempfile
from pathlib import Path

import anyio

from orchestrator import ConnectionSettings, Policy, RunRequest, RunSettings, run

HERE = Path(__file__).parent
PROMPTS = ["a lighthouse in fog", "a fox on a tin roof", "an empty theatre"]


async def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="orchestrator-"))
    inputs = folder / "prompts.jsonl"
    inputs.write_text("".join(f'{{"prompt": "{prompt}"}}\n' for prompt in PROMPTS))

    summary = await run(
        RunRequest(
            name="quickstart",
            source=str(inputs),
            endpoint=f"local:{HERE / 'handlers.py'}:caption",
            ledger=folder / "orchestrator.db",
            output=folder / "results.jsonl",
            errors=folder / "results.errors.jsonl",
            connection=ConnectionSettings(),
            settings=RunSettings(max_attempts=3, policy=Policy(execution_timeout_ms=60_000)),
        )
    )

    print((folder / "results.jsonl").read_text(), end="")
    print(f"{summary.jobs['succeeded']} of {summary.jobs['total']} succeeded in {summary.wall_s:.1f} s")


if __name__ == "__main__":
    anyio.run(main)
