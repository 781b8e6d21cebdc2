"""What the tests of the readers share."""

from pathlib import Path

import pytest

from tests.formats.input_files import Put


@pytest.fixture
def put(tmp_path: Path) -> Put:
    """Writes a file of that name, and returns its path."""

    def write(name: str, content: bytes | str) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(path)

    return write
