"""What the documentation says is what the program does."""

import re
from pathlib import Path

import pytest

from orchestrator.core.jobs.lifecycle import TRANSITIONS, Event, State
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.core.service.http_answers import POINTLESS
from tests import rooms, verbs
from tests.reference import anchors
from tests.walks import PAGE, WALKS, definition, page

ROOT = Path(__file__).parent.parent
HOW = (ROOT / "docs" / "why" / "how-it-works.md").read_text()


def drawn_from_the_table() -> str:
    lines = ["stateDiagram-v2", "    [*] --> queued"]
    lines += [f"    {state} --> {row[event]}: {event}" for state, row in TRANSITIONS.items() for event in row]
    return "\n".join(lines)


def test_the_lifecycle_diagram_is_the_one_drawn_from_the_table() -> None:
    found = re.search(r"```mermaid\n(.*?)\n```", HOW, re.DOTALL)
    assert found is not None
    assert sorted(found[1].splitlines()) == sorted(drawn_from_the_table().splitlines())


@pytest.mark.parametrize("word", [*State, *Event, *FailureClass])
def test_every_state_event_and_class_of_trouble_is_explained(word: str) -> None:
    assert re.search(rf"(\*\*|`){word}(\*\*|`)", HOW) or re.search(rf"\b{word}\b", HOW)


@pytest.mark.parametrize("status", POINTLESS)
def test_every_refusal_that_stops_a_run_is_documented(status: int) -> None:
    assert str(status) in HOW


@pytest.mark.parametrize(
    "page", ["README.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))]
)
def test_every_link_between_pages_leads_somewhere(page: str) -> None:
    path = ROOT / page
    for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", path.read_text()):
        found = path.parent / target if target else path
        assert found.exists(), target
        assert not anchor or anchor in anchors(found), f"{target}#{anchor}"


def test_every_public_name_can_be_imported() -> None:
    import orchestrator

    for name in orchestrator.__all__:
        assert getattr(orchestrator, name) is not None


def test_the_exit_codes_that_are_explained_are_those_of_the_errors() -> None:
    from orchestrator.cli.help.exit_codes import EXIT_CODES
    from orchestrator.errors import LedgerBusyError, OrchestratorError, StoppedError, UsageError

    codes = {each.code for each in EXIT_CODES}
    assert codes == {0, 1, 130, 143, 129} | {
        error.exit_code for error in (LedgerBusyError, OrchestratorError, StoppedError, UsageError)
    }


# --- how the house is explained in contributing.md


CONTRIBUTING = (ROOT / "docs" / "contributing.md").read_text()
HOP = re.compile(r"`([a-z_/]+\.py)::([A-Za-z_.]+)`")


def section(title: str) -> str:
    return CONTRIBUTING.split(f"\n## {title}\n")[1].split("\n## ")[0]


def test_the_page_of_the_rooms_is_the_one_that_is_written() -> None:
    assert rooms.PAGE.read_text(encoding="utf-8") == rooms.page(), "python -m tests.rooms writes it"


def test_the_page_of_verbs_is_up_to_date() -> None:
    assert verbs.VERBS.read_text(encoding="utf-8") == verbs.page(), "python -m tests.rooms writes it"


def test_the_page_of_the_modules_is_the_one_that_is_written_and_each_says_what_it_is() -> None:
    found = rooms.modules_page()
    assert rooms.MODULES.read_text(encoding="utf-8") == found, "python -m tests.rooms writes it"
    assert [line for line in found.splitlines() if line.startswith("- ") and not line.endswith((".", "!", "?"))] == []


def test_every_place_where_something_is_decided_exists_and_is_the_only_one() -> None:
    rows = re.findall(r"^\| (.+\?) \| (.+) \|$", section("Where is it decided?"), re.MULTILINE)
    assert len(rows) > 20
    for question, place in rows:
        named = HOP.fullmatch(place)
        if named is None:
            assert (ROOT / "orchestrator" / place.strip("`")).is_file(), question
        else:
            assert definition(place.strip("`"))[0], question
    assert len({place for _, place in rows}) == len({question for question, _ in rows}) == len(rows)


def test_every_step_of_the_walks_is_named_by_one_before_it() -> None:
    steps = [step for walk in WALKS for step in walk.steps]
    passed = definition(steps[0])[0]
    for step in steps[1:]:
        place, _, name = step.partition("::")
        word = name.removesuffix(".__init__").rpartition(".")[2]  # whoever makes an object names its class
        assert re.search(rf"\b{word}\b", passed), f"nobody leads to {place}::{name}"
        passed += definition(step)[0]


def test_the_page_of_the_walks_is_the_one_that_is_written() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()


def test_every_place_that_the_architecture_names_exists() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    places = HOP.findall(page)
    assert len(places) == 12
    for path, name in places:
        assert definition(f"{path}::{name}")[0]
    packages = {path.parent.name for path in (ROOT / "orchestrator").glob("*/__init__.py")}
    assert packages == {
        word for row in re.findall(r"^\| (`.+`) \|", page, re.MULTILINE) for word in re.findall(r"`(\w+)`", row)
    }


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.stem)
def test_every_page_begins_with_whom_it_is_for(page: Path) -> None:
    if page.name != "README.md":
        assert "For those who" in page.read_text(encoding="utf-8")[:400]


PACKAGES = "|".join(path.parent.name for path in (ROOT / "orchestrator").glob("*/__init__.py"))


@pytest.mark.parametrize("package", sorted(PACKAGES.split("|")))
def test_every_module_that_a_docstring_names_exists(package: str) -> None:
    product = ROOT / "orchestrator"
    named = {
        (path.relative_to(product).as_posix(), name)
        for path in (product / package).rglob("*.py")
        for name in re.findall(rf"`((?:{PACKAGES})(?:\.[a-z_]+)+)`", path.read_text(encoding="utf-8"))
    }
    assert sorted(each for each in named if not names_a_module(each[1])) == []


def names_a_module(name: str) -> bool:
    """Whether it is a room, a module, something of a module, or something that its package gives out."""
    package, *inner = name.split(".")
    place = ROOT / "orchestrator" / package
    for part in inner:
        if (place / f"{part}.py").is_file():
            return True
        if not (place / part).is_dir():
            return re.search(rf"\b{part}\b", (place / "__init__.py").read_text(encoding="utf-8")) is not None
        place /= part
    return True
