"""Questions to a ledger, of whichever kind, that find what was handed over wrongly: nothing is to be found."""

from typing import Final

NOT_HANDED_OVER: Final = """
SELECT jobs.id, relays.to_run FROM jobs JOIN relays ON relays.from_run = jobs.run_id
EXCEPT SELECT job_id, to_run FROM handovers
"""
COUNTED_WRONGLY: Final = """
SELECT * FROM (
  SELECT job_id, to_run, children,
    (SELECT count(*) FROM lineage JOIN jobs ON jobs.id = child
     WHERE parent = job_id AND jobs.run_id = to_run AND jobs.id <> coalesce(failed_job, 0)
       AND jobs.id NOT IN (SELECT failed_job FROM groups WHERE failed_job IS NOT NULL)) AS n
  FROM handovers) counted
WHERE children <> n
"""
FROM_NOWHERE: Final = """
SELECT id FROM jobs WHERE run_id IN (SELECT to_run FROM relays) AND id NOT IN (SELECT child FROM lineage)
"""
REPEATED: Final = "SELECT run_id, custom_id FROM jobs GROUP BY 1, 2 HAVING count(*) > 1"
