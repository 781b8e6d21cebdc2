"""The habits of this project that a machine can check: doors and layers. Sizes and words: `tests/architecture`."""

import ast
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

from orchestrator.api.emulation.emulate_request import EMULATOR
from orchestrator.core.diagnosis.causes import Cause
from orchestrator.settings.configuration_file import RUNS, Section
from tests import verbs
from tests.architecture import source
from tests.architecture.source import module

ROOT: Final = Path(__file__).resolve().parent.parent
FOLDERS: Final = ("orchestrator", "migrations", "tests", "examples")

FOREIGN_PATHS: Final = re.compile(r"(?<![\w.~$}/-])/(?:home|root|Users|work|farm|workspace|mnt)/\w")
"""Paths of somebody's machine."""

REGISTRIES: Final = ("index-url", "extra-index", "artifactory", "nexus", "devpi", "pypi.", "files.pythonhosted")
"""Where somebody's machine gets its packages."""

CAUSES: Final = frozenset(Cause)
"""What holds a run up may be called as a setting is."""

DECLARING: Final = {
    *(f"orchestrator/settings/{part}_settings.py" for part in ("run", "connection", "input", "output")),
    *(f"orchestrator/settings/{each}.py" for each in ("run_request", "command_requests", "command_flags")),
    "orchestrator/settings/parsers/job_policy.py",
    "orchestrator/api/emulation/emulate_request.py",
    "orchestrator/emulator/emulator_flags.py",
    "orchestrator/settings/lanes/lane_settings.py",
    "orchestrator/settings/outputs/save_settings.py",
    "orchestrator/emulator/jobs/scaling_rules.py",
}
"""Where settings are declared: those of runs, and the emulator's."""

STATEMENT: Final = re.compile(r"\b(?:SELECT\b.*\bFROM|INSERT INTO|UPDATE\b.*\bSET|DELETE FROM|PRAGMA|CREATE TABLE)\b")
"""SQL in a string."""

SQLITES_OWN: Final = re.compile(
    r"\bPRAGMA\b|json_each|json_extract|\bOR (?:REPLACE|IGNORE)\b|on_conflict|sqlite_\w+|\bsqlalchemy\.dialects|exec_driver_sql|data_version"
    r"|literal_column\(f?[\"']\+|func\.(?:min|max)\([^()]*,|^(?:import|from) (?:aiosqlite|sqlite3|fcntl|mmap)\b",
    re.MULTILINE,
)
"""What only SQLite has, or how it says it: statements, hints, kinds of tables, its drivers, its files."""


def modules(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def parsed(path: Path) -> ast.Module:
    return module(path).tree


@pytest.fixture(scope="module", autouse=True)
def _once_for_all() -> None:
    for each in source.modules("orchestrator"):
        _ = each.nodes


def calls(path: Path, *names: str) -> list[str]:
    """Where `path` calls something of these dotted names, whatever stands before the first dot."""
    return module(path).calls(*names)


def test_every_module_says_what_it_is_for() -> None:
    assert [name_of(path) for path in modules("orchestrator") if not ast.get_docstring(parsed(path))] == []


def test_transitions_are_made_by_their_constructors_only() -> None:
    assert {place.split(":")[0] for path in modules("orchestrator") for place in calls(path, "Transition")} == {
        "orchestrator/core/jobs/transition_type.py"
    }


def test_the_next_state_is_looked_up_in_one_place() -> None:
    assert {place.split(":")[0] for path in modules("orchestrator") for place in calls(path, "next_state")} == {
        "orchestrator/core/jobs/transition_type.py"
    }


def test_requests_are_repeated_in_one_place_and_reading_in_another() -> None:
    repeating = [name_of(path) for path in modules("orchestrator") if "tenacity" in path.read_text(encoding="utf-8")]
    assert repeating == ["orchestrator/client/jobs/retries.py", "orchestrator/stores/repeats.py"]


def test_the_doors_are_the_only_way_to_a_connection() -> None:
    opened = [
        place
        for path in modules("orchestrator")
        for place in calls(path, "create_async_engine", "sync_engine.connect", "aiosqlite.connect")
    ]
    assert opened
    assert {place.split(":")[0] for place in opened} == {
        "orchestrator/ledger/postgres/database.py",
        "orchestrator/ledger/postgres/line.py",
        "orchestrator/ledger/sqlite/database.py",
    }


def test_nothing_but_a_migration_opens_the_file_beside_the_doors() -> None:
    opened = [place for path in modules("orchestrator") for place in calls(path, "sqlite3.connect", "create_engine")]

    ways = {
        "orchestrator/ledger/migrations.py",
        "orchestrator/ledger/sqlite/immutable_file.py",
    }  # the second for the doors
    assert {place.split(":")[0] for place in opened} == ways


AROUND: Final = {
    "orchestrator/ledger/copying/ledger_copy.py",  # for as long as it takes
    "orchestrator/ledger/ledger.py",  # before anybody works
    "orchestrator/ledger/postgres/identity/ledger_identity.py",  # a row that no verb knows
    "orchestrator/ledger/sqlite/database.py",
    "orchestrator/ledger/transactions/batch_write.py",  # what verbs, steps and notices are written by
}
"""Who opens a transaction that writes by itself."""


def test_each_verb_says_once_beside_which_others_it_may_go_on_and_nobody_goes_around() -> None:
    """A transaction is had of `Access.shared` or `Access.alone`, of nothing else."""
    said = verbs.marked()
    assert len(said) > 80
    assert {verb: marks for verb, marks in said.items() if len(marks) != 1} == {}
    opened = [place for path in modules("orchestrator") for place in calls(path, "writing")]
    assert {place.split(":")[0] for place in opened} == AROUND
    ways = [f"{writer}.{run}" for writer in ("writer", "_writer") for run in ("run", "run_briefly")]
    handed = [place for path in modules("orchestrator") for place in calls(path, *ways)]
    assert {place.split(":")[0] for place in handed} == {"orchestrator/ledger/transactions/repository.py"}


PEOPLES: Final = {
    "Step": "orchestrator.engine.user_code.functions",
    "Check": "orchestrator.engine.user_code.functions",
    "Handler": "orchestrator.emulator.workers.handlers",
    "Function": "orchestrator.api.runs.keyword_options",
    "StepFunction": "orchestrator.api.python.pipeline",
    "Inputs": "orchestrator.api.python.inputs",
}
"""The types of people's functions and iterables, and where they are defined."""


def test_people_s_modules_are_loaded_by_the_door_to_their_code() -> None:
    loading = [
        place
        for path in modules("orchestrator")
        for place in calls(path, "exec_module", "spec_from_file_location", "module_from_spec", "runpy.run_path", "exec")
    ]
    assert {place.split(":")[0] for place in loading} == {
        "orchestrator/user_code.py",
        "orchestrator/ledger/sqlite/lazy_orm.py",  # a part of SQLAlchemy
    }


def peoples_types(path: Path) -> set[str]:
    """Those of the types that `path` defines or imports."""
    own = name_of(path).removesuffix(".py").replace("/", ".")
    imported = {
        (alias.name, node.module)
        for node in module(path).nodes
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    return {name for name, home in PEOPLES.items() if home == own or (name, home) in imported}


def names_of(path: Path, types: set[str]) -> set[str]:
    """The names of what is of one of these types: arguments, variables, members, and functions that return one."""

    def is_one(annotation: ast.expr | None) -> bool:
        return annotation is not None and any(
            isinstance(part, ast.Name) and part.id in types for part in ast.walk(annotation)
        )

    found = set()
    for node in module(path).nodes:
        match node:
            case ast.arg(arg=name, annotation=kind) if is_one(kind):
                found.add(name)
            case ast.AnnAssign(target=ast.Name(id=name) | ast.Attribute(attr=name), annotation=kind) if is_one(kind):
                found.add(name)
            case ast.FunctionDef(name=name, returns=kind) if is_one(kind):
                found.add(f"{name}()")
    return found | {f"_{name}" for name in found}


def name_called(expression: ast.expr) -> str | None:
    """What is called or gone through there, by its last name."""
    match expression:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Call(func=function):
            return f"{name_called(function)}()"
        case _:
            return None


def test_people_s_code_is_called_through_its_door_only() -> None:
    """As far as types tell: functions of theirs are called by nobody else, and their inputs gone through by nobody."""
    found = []
    for path in modules("orchestrator"):
        if not (types := peoples_types(path)):
            continue
        names = names_of(path, types)
        for node in module(path).nodes:
            match node:
                case (
                    ast.Call(func=done) | ast.For(iter=done) | ast.AsyncFor(iter=done) | ast.comprehension(iter=done)
                ) if name_called(done) in names:
                    found.append(f"{name_of(path)}:{done.lineno} {ast.unparse(done)}")
    assert found == []


def test_sql_is_spoken_in_the_ledger_only() -> None:
    spoken = [
        f"{name_of(path)}:{node.lineno}"
        for path in modules("orchestrator")
        if "ledger" not in path.parts
        for node in module(path).nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and STATEMENT.search(node.value)
    ]
    assert spoken == []


def test_no_connection_statement_or_transaction_leaves_the_ledger() -> None:
    found = [
        f"{name_of(path)}: {match[0]}"
        for path in modules("orchestrator")
        if not name_of(path).startswith("orchestrator/ledger/")
        for match in re.finditer(
            r"AsyncConnection|ledger\.(?:doors|steps|tables)|import .*\bTransaction\b|\.(?:connection|reading|writing)\(",
            path.read_text(encoding="utf-8"),
        )
    ]
    assert found == []


AT_THE_DOOR = {"orchestrator/ledger/migrations.py", "orchestrator/ledger/opening.py"}
"""They find out what a file is, and bring it up to date, before there is a ledger: above all rooms, which they build."""


LOCKS_BESIDE = {"orchestrator/formats/output/saved_files.py", "orchestrator/stores/leftover_uploads.py"}
"""Files of its own, which it locks as the ledger's are locked; it knows no ledger."""


MARKED_HERE = {"orchestrator/ledger/sites/sent_marks.py"}
"""A file of this machine, whichever database it belongs to."""


SAID_FOR_EACH = {"orchestrator/ledger/statements.py"}
"""It says each thing for all databases, and so names what SQLAlchemy wants to be told of one: a prefix, a table's kind."""


def test_what_is_a_database_s_own_stands_in_its_room() -> None:
    found = [
        f"{name_of(path)}: {match[0]}"
        for path in modules("orchestrator")
        if not name_of(path).startswith(("orchestrator/ledger/sqlite/", "orchestrator/ledger/postgres/"))
        and name_of(path) not in AT_THE_DOOR | LOCKS_BESIDE | MARKED_HERE | SAID_FOR_EACH
        for match in SQLITES_OWN.finditer(path.read_text(encoding="utf-8"))
    ]
    assert found == []


NAMESAKES = {
    "orchestrator/cli/pipelines/apply.py",
    "orchestrator/cli/help/exit_codes.py",
    "orchestrator/cli/help/command_screens.py",
    "orchestrator/cli/help/topics.py",
    "orchestrator/cli/runs/revalidate.py",
    "orchestrator/core/jobs/escalation_text.py",
}
"""`apply --check` looks at files and does nothing else, `runs recheck --dry-run` judges and writes nothing down, and rules for what follows trouble have words of their own."""


@pytest.mark.parametrize(
    ("section", "rooms"),
    [(RUNS, ("orchestrator",)), (EMULATOR, ("orchestrator/api", "orchestrator/engine"))],
)
def test_each_setting_is_named_in_its_declaration_only(section: Section, rooms: tuple[str, ...]) -> None:
    """Messages and commands name it through that. A key of one word may be anybody's, and so may be a key in a room
    that has nothing to do with it (`Retry-After`)."""
    flags = re.compile(rf"(?<![\w-])--({'|'.join(section.settings)})(?![\w-])")
    found = [
        f"{name_of(path)}:{line} {text}"
        for path in modules(*rooms)
        if name_of(path) not in DECLARING
        for line, text in module(path).texts()
        if name_of(path) not in NAMESAKES
        and (flags.search(text) or ("-" in text and text in section.settings and text not in CAUSES))
    ]
    assert found == []


def test_tests_sleep_on_virtual_time_only() -> None:
    def is_virtual(path: Path) -> bool:
        text = path.read_text(encoding="utf-8")
        if not path.name.startswith("test_") and ("system" in path.parts or '__name__ == "__main__"' in text):
            return True  # a program of its own, which the test starts as a process
        return {"simulation", "benchmarks", "hostile", "crashes", "failover", "narrow"} & set(
            path.parts
        ) != set() or bool(re.search(r"virtual_time|tests\.simulation", text))

    slept = [
        place
        for path in modules("tests")
        if not is_virtual(path)
        for place in calls(path, "sleep")
        if not place.endswith("sleep_forever")
    ]
    assert slept == []


def test_what_a_block_of_the_ledger_s_returns_is_built_inside() -> None:
    """A block may run twice: what the first time has left outside would be there the second time."""
    found = [
        f"{name_of(path)}:{node.lineno}"
        for path in modules("orchestrator/ledger")
        for node in module(path).nodes
        if isinstance(node, ast.Nonlocal)
    ]
    assert found == []


def is_foreign(text: str) -> bool:
    lower = text.lower().replace("pypi.org", "")
    return any(registry in lower for registry in REGISTRIES) or FOREIGN_PATHS.search(text) is not None


def test_no_file_knows_a_machine_or_a_registry() -> None:
    found = [
        f"{name_of(path)}:{number} {line.strip()}"
        for path in source.tracked()
        for text in [path.read_text(encoding="utf-8")]
        if path != Path(__file__) and is_foreign(text)
        for number, line in enumerate(text.splitlines(), start=1)
        if is_foreign(line)
    ]
    assert found == []


@pytest.mark.slow
def test_imports_point_down_only() -> None:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("package", ["orchestrator", "orchestrator.client", "orchestrator.emulator"])
def test_what_a_package_loads_when_it_is_first_used_stays_what_it_is(package: str) -> None:
    """A submodule of the same name would take its place once it is imported."""
    loaded = import_module(package)
    first = {name: getattr(loaded, name) for name in loaded.__all__}
    assert {name: getattr(loaded, name) for name in loaded.__all__} == first
    assert [name for name, value in first.items() if isinstance(value, ModuleType)] == []
