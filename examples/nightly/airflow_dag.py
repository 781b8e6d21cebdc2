"""Where Airflow has the calendar: it asks for the flow of each data interval, and waits for it.

The same interval is the same flow, so a task that Airflow tries again pays for nothing twice. Leave [schedule] out of
captions.toml then, or both fire.
"""
# mypy: ignore-errors

from datetime import UTC, datetime

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

TRIGGER = "cd /srv/batches && .venv/bin/orchestrator trigger captions --at {{ data_interval_end }} --wait --json"

with DAG("captions", schedule="30 2 * * *", start_date=datetime(2027, 3, 1, tzinfo=UTC), catchup=False) as dag:
    BashOperator(task_id="captions", bash_command=TRIGGER, retries=3)
