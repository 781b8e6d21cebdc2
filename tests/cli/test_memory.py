"""What a process has been given by the system, it gives back."""

import ctypes
import subprocess
import sys

import pytest

SCRIPT = """
import os, sys
from orchestrator.cli.framework.runner import LARGE_BLOCK_BYTES, give_back_large_blocks

def held():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

if sys.argv[1] == "given back":
    give_back_large_blocks()
bytes(24 * LARGE_BLOCK_BYTES)
before, small = held(), []
for _ in range(20):
    large = [bytearray(b"x") * 6 * LARGE_BLOCK_BYTES for _ in range(4)]
    small.append(bytearray(600))
    del large[::2]
    small += [bytearray(5_000) for _ in range(3)]
    del large
print(held() - before)
"""


def held_bytes(how: str) -> int:
    done = subprocess.run([sys.executable, "-c", SCRIPT, how], capture_output=True, check=True)
    return int(done.stdout)


@pytest.mark.slow
@pytest.mark.system
@pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "mallopt"), reason="memory is another library's affair"
)
def test_large_blocks_that_are_free_go_back_to_the_system() -> None:
    assert held_bytes("by itself") > 8_000_000
    assert held_bytes("given back") < 4_000_000
