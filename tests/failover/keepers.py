"""Kills whoever keeps a ledger on a server, again and again, while a pipeline fires, hands rows over and tells of its flows.

python -m tests.failover.keepers [--kills 100] [--seed 1] [--record]

Two machines serve the ledger. Whoever owns its shard 0 fires, begins stages, hands over and tells; it is killed at a
random moment, and its machine begins again. (The suite has that on virtual time, in the worlds of several engines: here
what a killed one had sent is known to be lost a minute later only.)

Exits with 1 where a fire is in no place or in two, has not one flow, or a
flow has not come to its end; where a row was not handed over, or twice; where a message was not sent, or two of different
ids tell the same.
"""

import argparse
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import anyio

from orchestrator.settings.addresses.ledger_address import parse_ledger_url
from tests.crashes.firing import checked, pause_all
from tests.failover.database import Database
from tests.failover.machine import SERVICE, Machine, away
from tests.failover.world import World, world
from tests.firing.handed_over import COUNTED_WRONGLY, FROM_NOWHERE, NOT_HANDED_OVER, REPEATED
from tests.guarantees.recording import record
from tests.postgres.server import server_url
from tests.system.processes import Desk, Service

APART_S_MAX: Final = 4.0
"""A keeper is killed so long after its first look at the latest."""

FOUND_S_MAX: Final = 30.0
SETTLED_S_MAX: Final = 600.0
"""By then all that was due while nobody worked has come to its end."""

LOOK_S: Final = 0.1
ROWS: Final = 3
PIPELINE: Final = f"""name = "often"
input = "in.jsonl"
[schedule]
every = "10s"
overlap = "queue"
catch-up = "1h"
[notify]
on = ["started", "done", "partial", "failed"]
url = "{SERVICE}/told"
[stage.first]
endpoint = "ep1"
serverless-url = "{SERVICE}"
[stage.second]
step = "steps.py:doubled"
endpoint = "ep1"
serverless-url = "{SERVICE}"
"""
STEPS: Final = """
def doubled(row):
    return [{"of": row["custom_id"], "number": number} for number in range(2)]
"""

_KEEPER: Final = "SELECT name FROM leases JOIN processes ON processes.id = owner WHERE shard = 0"
_UNSENT: Final = "SELECT news FROM outbox WHERE told_at IS NULL"
_LIVE: Final = "SELECT name FROM flows WHERE ended_at IS NULL"
_WRONG: Final = {
    "a row was not handed over": NOT_HANDED_OVER,
    "a row became others than was counted": COUNTED_WRONGLY,
    "a row is from nowhere": FROM_NOWHERE,
    "a row is there twice": REPEATED,
    "a row is still owed": "SELECT job_id, to_run FROM owed",
    "a message was not sent": _UNSENT,
    "a stage has two runs": "SELECT name FROM runs GROUP BY name HAVING count(*) > 1",
}


def main() -> None:
    """Kills, prints what came of it, and exits with 1 where a promise is not kept."""
    parser = argparse.ArgumentParser(prog="python -m tests.failover.keepers", description="Keepers, killed.")
    parser.add_argument("--kills", type=int, default=100, help="how often (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the moments (default: %(default)s)")
    parser.add_argument("--record", action="store_true", help="keep the figures for docs/why/guarantees.md")
    chosen = parser.parse_args()
    service = Service()
    try:
        with tempfile.TemporaryDirectory() as folder, server_url(Path(folder), is_durable=True) as url:
            wrong = anyio.run(killed, Desk(Path(folder)), service, Database(url), chosen.kills, chosen.seed)
    finally:
        service.stop()
    print("\n".join(wrong) or f"{chosen.kills} kills: all fired, begun, handed over and told once")
    if chosen.record:
        command = f"python -m tests.failover.keepers --kills {chosen.kills}"
        record("what a killed keeper left undone, or did twice", len(wrong), "times", command, at_most=0)
    sys.exit(1 if wrong else 0)


async def killed(desk: Desk, service: Service, database: Database, kills: int, seed: int) -> list[str]:
    """Makes the `database`, and kills so many keepers of the ledger in it; returns what is wrong afterwards."""
    chance, ledger = random.Random(seed), parse_ledger_url(database.url)
    await database.make()
    desk.inputs(ROWS, "in.jsonl")
    desk.write("steps.py", STEPS)
    desk.write("often.toml", PIPELINE)
    async with world(desk, service, database) as there:
        await there.begin()
        applied = await there.command("apply", "often.toml")
        assert applied.exit_code == 0, applied
        for number in range(kills):
            keeper = await keeper_of(there)
            await anyio.sleep(chance.uniform(0, APART_S_MAX))
            await keeper.kill()
            await keeper.start()
            flows = len({each["data"].get("flow") for each in await away(service.told)})
            print(f"{number + 1:>4} {keeper.name:>8} was killed; {flows} flows were told of", flush=True)
        await there.stop()
        await pause_all(ledger)
        await there.machines["first"].start()
        await _until_all_ended(database)
        await there.stop()
    async with database.inside() as inside:
        wrong = [f"{what}: {tuple(row)}" for what, query in _WRONG.items() for row in await inside.fetch(query)]
    return [*await checked(ledger), *wrong, *_told(await away(service.told), kills)]


async def keeper_of(there: World) -> Machine:
    """The machine whose process owns shard 0, once there is one."""
    async with there.database.inside() as inside:
        with anyio.fail_after(FOUND_S_MAX):
            while True:
                name = await inside.fetchval(_KEEPER)
                for machine in there.machines.values():
                    if name is not None and f"process {machine.pid} " in name:
                        return machine
                await anyio.sleep(LOOK_S)


async def _until_all_ended(database: Database) -> None:
    async with database.inside() as inside:
        with anyio.fail_after(SETTLED_S_MAX):
            while await inside.fetch(_LIVE) or await inside.fetch(_UNSENT):  # noqa: ASYNC110  it is a server's to say
                await anyio.sleep(LOOK_S)


def _told(came: Sequence[Any], kills: int) -> list[str]:
    """What is wrong with the messages: the same is told by one id, and only a kill has one sent again."""
    ids = Counter(each["id"] for each in came)
    news = {each["id"]: (each["type"], each["data"]["flow"]) for each in came}
    twice = [what for what, n in Counter(news.values()).items() if n > 1]
    found = [f"{what} was told by two messages" for what in twice]
    if (again := sum(ids.values()) - len(ids)) > kills:
        found.append(f"{again} messages were sent again")
    return found


if __name__ == "__main__":
    main()
