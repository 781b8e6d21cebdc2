"""What is secret of ours leaves for no row, whatever is allowed."""

import pytest

from orchestrator.core.service.row_variables import EVERYTHING, RefusedVariables, RowVariables
from orchestrator.core.service.s3_config import S3Config
from orchestrator.settings.connection_settings import ConnectionSettings, own_keys


@pytest.mark.parametrize("name", ["ORCHESTRATOR_API_KEY", "RUNPOD_API_KEY", "ORCHESTRATOR_WEBHOOK_KEY", "PGPASSWORD"])
def test_neither_a_key_nor_the_password_of_the_ledger_is_a_rows(name: str) -> None:
    environ = {name: "hunter2", "S3_ID": "an id"}
    connection = ConnectionSettings(serverless_url="https://service.test", api_key="")
    variables = RowVariables(environ, ["PG*", EVERYTHING], own_keys(connection, environ))
    config = S3Config(access_id="env:S3_ID", access_secret=f"env:{name}", endpoint_url="https://their.test")
    with pytest.raises(RefusedVariables, match=f"refers to {name}, a key of this program's own"):
        variables.resolve(config)
