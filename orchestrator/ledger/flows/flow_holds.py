"""How a flow is held beside its life: by a brake of one of its runs, or paused as well."""

from typing import Final

from sqlalchemy import bindparam, update

from orchestrator.core.pipelines.flow_lifecycle import FlowState
from orchestrator.ledger.schema.flow_tables import flows

BRAKED: Final = update(flows).where(flows.c.id == bindparam("of")).values(is_braked=1, why=bindparam("because"))
WHY_BRAKED: Final = (
    update(flows).where(flows.c.id == bindparam("of"), flows.c.is_braked == 1).values(why=bindparam("because"))
)
PAUSED: Final = (
    update(flows)
    .where(flows.c.id == bindparam("of"), flows.c.state == FlowState.ON_HOLD.value, flows.c.is_braked == 1)
    .values(is_braked=0, why=bindparam("because"))
)
"""What a brake holds is paused as well; that it is held was told."""
