"""JSON without spaces, as a program writes it that sends a lot."""

import json


def compact(value: object) -> bytes:
    """`value` as such."""
    return json.dumps(value, separators=(",", ":")).encode()
