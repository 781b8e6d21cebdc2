"""What an expression of Prometheus asks for: the names of its metrics, each with the labels that it is chosen by."""

import re
from collections.abc import Iterator

_ASKED = re.compile(r"\b(orchestrator_\w+)(\{[^}]*\})?")
_LABEL = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"")
FROM_PROMETHEUS = {"instance", "job"}
"""Labels that Prometheus adds itself."""


def names_and_labels(expr: str) -> Iterator[tuple[str, set[str]]]:
    for name, matches in _ASKED.findall(expr):
        yield name, set(_LABEL.findall(matches)) - FROM_PROMETHEUS
