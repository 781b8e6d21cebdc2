"""Verbs that meet, and verbs during which their process loses the ledger, in every order of their statements on a server.

python -m tests.postgres.every_order [--made-way 2] [--record] [WORD ...]
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from tests.guarantees.recording import record
from tests.postgres.databases import Databases
from tests.postgres.meetings import MEETINGS, met
from tests.postgres.server import server_url
from tests.postgres.take_overs import RIVALS, VERBS, contested

Whole = Callable[..., Coroutine[Any, Any, int]]
"""Tries all orders in the ledger at a URL; returns in how many."""

ALL: Final[Mapping[str, Whole]] = {
    **{name: partial(met, prepare=prepare) for name, prepare in MEETINGS.items()},
    **{
        f"{name} and {happens}": partial(contested, prepare=prepare, rival=rival)
        for name, prepare in VERBS.items()
        for happens, rival in RIVALS.items()
    },
}


def main() -> None:
    """Prints in how many orders each was tried; ends with what is wrong with the first one that is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--made-way", type=int, default=2, help="how often one makes way without having to")
    parser.add_argument("--record", action="store_true", help="keep the figure for docs/why/guarantees.md")
    parser.add_argument("words", nargs="*", metavar="WORD", help="of the names of those that are tried")
    given = parser.parse_args()
    tried = 0
    with tempfile.TemporaryDirectory() as shared, server_url(Path(shared)) as server:
        databases = Databases(server)
        for name, whole in ALL.items():
            if all(word in name for word in given.words):
                with databases.one() as url:
                    began = time.perf_counter()
                    orders = asyncio.run(whole(url, made_way_max=given.made_way))
                tried += orders
                print(f"{name}: {orders:,} orders in {time.perf_counter() - began:.0f} s", flush=True)
        databases.close()
    print(f"{tried:,} orders, and nothing lost in any")
    if given.record and not given.words:
        command = f"python -m tests.postgres.every_order --made-way {given.made_way}"
        record("orders of statements in which verbs and losses of a ledger have met", tried, "orders", command)


if __name__ == "__main__":
    main()
