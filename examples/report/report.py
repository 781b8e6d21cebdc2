"""Reads the results of two stages and prints one line for each prompt, and one for all of them."""

import json
import os
import sys
from pathlib import Path
from typing import Any


def results(path: str) -> dict[str, Any]:
    """The outputs of a stage by the id of their row."""
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    return {row["custom_id"]: row["output"] for row in map(json.loads, lines)}


captions, means = map(results, sys.argv[1:])
print(f"{len(captions)} captions, {len(means)} with a mean", file=sys.stderr)
for name, output in means.items():
    line = {"custom_id": name, "parents": [name], "caption": captions[name]["text"], "mean": output["vector"]}
    print(json.dumps(line))
print(json.dumps({"custom_id": "all", "flow": os.environ["ORCHESTRATOR_FLOW"], "captions": len(captions)}))
