"""What is told of an extra that is missing installs this program's own, by what has installed it."""

import tomllib
from pathlib import Path

import pytest

from orchestrator.installation import DISTRIBUTION, command_for, install_command

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize(
    ("prefix", "installer", "folder", "told"),
    [
        ("/srv/me/.venv", "pip", None, "pip install 'serverless-orchestrator[parquet]'"),
        ("/srv/me/.venv", "uv", None, "uv pip install 'serverless-orchestrator[parquet]'"),
        ("/srv/me/.local/share/uv/tools/x", "uv", None, "uv tool install --force 'serverless-orchestrator[parquet]'"),
        ("/srv/me/.local/pipx/venvs/x", "pip", None, "pipx install --force 'serverless-orchestrator[parquet]'"),
        ("/srv/me/.local/pipx/venvs/x", "pip", "/src/it", "pipx install --force '/src/it[parquet]'"),
        ("/srv/me/.venv", "", "/src/it", "pip install '/src/it[parquet]'"),
    ],
)
def test_the_command_is_for_what_has_installed_it(prefix: str, installer: str, folder: str | None, told: str) -> None:
    assert command_for("parquet", prefix=prefix, installer=installer, folder=folder) == told


def test_a_source_tree_is_installed_from_itself() -> None:
    assert install_command("parquet").endswith(f"install '{ROOT}[parquet]'")


def test_the_name_is_the_one_under_which_it_is_built_and_none_of_the_pages_has_another() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["name"] == DISTRIBUTION
    assert list(project["scripts"]) == ["orchestrator"]
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    assert [page.name for page in pages if "'orchestrator[" in page.read_text()] == []
