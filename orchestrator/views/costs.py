"""What was spent, and what is to be expected, as people and programs are shown it."""

import msgspec


class CostView(msgspec.Struct, frozen=True, kw_only=True):
    """An amount, in the currency of the price, and by how much it may be off either way."""

    amount: float
    error: float
