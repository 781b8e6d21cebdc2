"""One HTTP request out: carriers, time-outs about silence, proxies, places on the line.

Before anything imports httpx, it is kept from loading its own command line, and with that Click, Rich and Pygments: an
eighth of the time in which the program starts (measured). httpx does without them where they are not installed, and so
it is told.
"""

import sys
from typing import Final, cast

_COMMAND_LINE: Final = "httpx._main"

if "httpx" not in sys.modules:
    modules = cast(dict[str, object], sys.modules)
    modules[_COMMAND_LINE] = None
    import httpx  # noqa: F401

    del modules[_COMMAND_LINE]
