"""The main job from Python: inputs in, results out, through crashes and restarts.

It needs no account: the endpoint is a function of ours, run by the embedded emulator. For the real service give an
endpoint's id in its place, and set the API key: `export ORCHESTRATOR_API_KEY=...`.
"""

import tempfile
from pathlib import Path
from typing import Any

import orchestrator

PROMPTS = ["a lighthouse in fog", "a fox on a tin roof", "an empty theatre"]


def caption(job: dict[str, Any]) -> dict[str, str]:
    """What a worker does: it gets a job and returns its output."""
    return {"caption": f"A picture of {job['input']['prompt']}"}


def main() -> None:
    ledger = Path(tempfile.mkdtemp(prefix="orchestrator-")) / "orchestrator.db"
    inputs = ({"prompt": prompt} for prompt in PROMPTS)
    succeeded = 0

    for result in orchestrator.map(caption, inputs, name="quickstart", ledger=ledger, max_attempts=3):
        if result.error is None:
            succeeded += 1
            print(result.custom_id, result.output["caption"])
        else:
            print(result.custom_id, "failed:", result.error)

    print(f"{succeeded} of {len(PROMPTS)} succeeded; the ledger is {ledger}")


if __name__ == "__main__":
    main()
