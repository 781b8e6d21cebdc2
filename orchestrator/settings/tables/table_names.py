"""The tables of the configuration file: what each is called, and how it is written."""

from typing import Final

from orchestrator.settings.connection_settings import PROFILE

BATCH_API_TABLE: Final = "batch-api"
"""What the file says of the Batch API."""

EMULATE_TABLE: Final = "emulate"
"""The emulator's part of the file."""

DASHBOARD_TABLE: Final = "dashboard"
"""The dashboard's."""

MODELS_TABLE: Final = "models"
"""What the file says of the models that the Batch API serves, each in a table of its own: `[models."org/name"]`."""

ENDPOINTS_TABLE: Final = "endpoints"
"""What the file says of single endpoints, each in a table of its own: `[endpoints.abc123]`."""

POOLS_TABLE: Final = "pools"
"""What the file says of pools of endpoints, each in a table of its own: `[pools.captions]`."""

POD_TEMPLATES_TABLE: Final = "pod-templates"
"""What the file says of kinds of pods that work for runs, each in a table of its own: `[pod-templates.vllm]`."""

PROFILES_TABLE: Final = "profile"
"""What the file says of single accounts, each in a table of its own: `[profile.work]`."""

NOTIFY_TABLE: Final = "notify"
"""Who can be told, each in a table of its own: `[notify.ops]`. Beside these `to` is what the key of that name is for
runs, which stands alone in files without such tables.
"""

TABLES: Final = {
    BATCH_API_TABLE: 'batch-api must be a table, as in [batch-api] and, below it, keys = { team-a = "env:TEAM_A_KEY" }',
    EMULATE_TABLE: "emulate must be a table, as in [emulate] and, below it, port = 8900",
    DASHBOARD_TABLE: 'dashboard must be a table, as in [dashboard] and, below it, listen = "127.0.0.1:8901"',
    ENDPOINTS_TABLE: (
        f"{ENDPOINTS_TABLE} has a table for each endpoint, as in [{ENDPOINTS_TABLE}.abc123] or, of a URL,"
        f' [{ENDPOINTS_TABLE}."https://host/v1"]'
    ),
    MODELS_TABLE: (
        f'{MODELS_TABLE} has a table for each model, as in [{MODELS_TABLE}."org/name"] and, below it, endpoint ='
        ' "abc123"'
    ),
    POOLS_TABLE: (
        f"{POOLS_TABLE} has a table for each pool, as in [{POOLS_TABLE}.captions] and, below it, endpoints ="
        ' ["abc123", "def456"]'
    ),
    POD_TEMPLATES_TABLE: (
        f"{POD_TEMPLATES_TABLE} has a table for each kind of pod, as in [{POD_TEMPLATES_TABLE}.vllm] and, below it,"
        ' template = "vllm-l4"'
    ),
    PROFILES_TABLE: (
        f"{PROFILES_TABLE} has a table for each account, as in [{PROFILES_TABLE}.work] and, below it, key ="
        f' "env:WORK_KEY"; {PROFILE} or ORCHESTRATOR_PROFILE chooses one'
    ),
}
"""The tables of the file, each with how it is written."""
