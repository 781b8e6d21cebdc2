"""The units of the program: times are microseconds (UTC), sizes are bytes.

A constant of its own says its unit in its name (`_US`, `_MS`, `_S`, `_BYTES`) and is made of these.
"""

from typing import Final

MILLISECOND_US: Final = 1_000
SECOND_US: Final = 1_000_000
MINUTE_US: Final = 60 * SECOND_US
HOUR_US: Final = 60 * MINUTE_US
DAY_US: Final = 24 * HOUR_US

KIB: Final = 1024
MIB: Final = 1024 * KIB
