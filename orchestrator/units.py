"""The units of the program: times are microseconds (UTC) since the epoch, sizes are bytes, shares are millionths.

A constant of its own says its unit in its name (`_US`, `_MS`, `_S`, `_BYTES`) and is made of these.
"""

from datetime import UTC, datetime
from typing import Final

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""What times are counted from."""

MILLISECOND_US: Final = 1_000
SECOND_US: Final = 1_000_000
MINUTE_US: Final = 60 * SECOND_US
HOUR_US: Final = 60 * MINUTE_US
DAY_US: Final = 24 * HOUR_US

KIB: Final = 1024
MIB: Final = 1024 * KIB

WHOLE: Final = 1_000_000
"""All of something: shares are counted in millionths, in which 7 % of 100 rows are 7."""
