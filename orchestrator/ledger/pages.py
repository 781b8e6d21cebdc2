"""Pages: how many rows fit into so many bytes of memory. What a row holds is known before any of it is read."""

from collections.abc import Iterable


def fitting(sizes: Iterable[int], bytes_max: int) -> int:
    """How many rows, of these sizes in their order, come to at most `bytes_max`; the first one always fits."""
    taken = held = 0
    for size in sizes:
        held += size
        if taken and held > bytes_max:
            break
        taken += 1
    return taken
