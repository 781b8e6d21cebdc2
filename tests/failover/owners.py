"""Which process had which endpoint, one after the other, as the server of the ledger has noted it for the tests.

Whoever has lost an endpoint may have it again, so that what was sent alone does not tell who might send.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from orchestrator.ledger.expressions import shard_of
from tests.failover.database import Database
from tests.postgres.succession import Succession

_NOTE: Final = """
CREATE SCHEMA of_tests;
CREATE TABLE of_tests.owned (place bigserial, shard bigint, process text);
CREATE FUNCTION of_tests.note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO of_tests.owned (shard, process) SELECT NEW.shard, name FROM public.processes WHERE id = NEW.owner;
  RETURN NULL; END $$;
CREATE TRIGGER note AFTER INSERT OR UPDATE OF owner ON leases FOR EACH ROW EXECUTE FUNCTION of_tests.note();
INSERT INTO of_tests.owned (shard, process) SELECT shard, name FROM leases JOIN processes ON processes.id = owner
"""
_FORGET: Final = "DROP SCHEMA of_tests CASCADE"
_OWNED: Final = f"""
SELECT endpoint, process FROM endpoints JOIN of_tests.owned ON shard = {shard_of()} ORDER BY place
"""
_PID: Final = re.compile(r"process (\d+) ")


class Sent(NamedTuple):
    """A request, as the service has it."""

    at: float
    """Seconds, by the clock of event loops, which is the same for all on this machine."""

    key: str
    operation: str
    endpoint: str


async def begin_to_note(database: Database) -> None:
    """From now on it is noted who has what of the ledger in the `database`."""
    async with database.inside() as inside:
        await inside.execute(_NOTE)


async def forget(database: Database) -> None:
    """Nothing is noted any more, and nothing of it is left: others may use the `database`."""
    async with database.inside() as inside:
        await inside.execute(_FORGET)


async def owners_of(database: Database, keys: Mapping[int, str]) -> Mapping[str, Sequence[str]]:
    """With which keys the owners of each endpoint send, in their order; `keys` are those of processes, by their ids."""
    found = defaultdict[str, list[str]](list)
    async with database.inside() as inside:
        for endpoint, process in await inside.fetch(_OWNED):
            found[endpoint].append(keys[_pid(process)])
    return found


def _pid(process: str) -> int:
    found = _PID.match(process)
    assert found is not None, process
    return int(found[1])


def late_in(sent: Iterable[Sent], owners: Mapping[str, Sequence[str]]) -> int:
    """How many of these requests, in their order, came of one whose successor had sent at the same endpoint, or that never
    had it.
    """
    succession = Succession()
    return sum(not succession.may_send(each.key, each.endpoint, owners.get(each.endpoint, ())) for each in sent)
