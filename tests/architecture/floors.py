"""What the lower floors do not know: flags, commands, keys; and that sentences are for people, codes for programs."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from orchestrator.core.diagnosis.causes import Cause
from orchestrator.settings.configuration_file import RUNS
from tests.architecture.rules import Rule
from tests.architecture.source import Module

BELOW_API: Final = tuple(
    f"orchestrator/{room}/" for room in ("core", "ledger", "client", "formats", "account", "engine", "web")
)

CAUSES: Final = frozenset(Cause)
"""What holds a run up may be called as a setting is."""

OTHER_PROGRAMS: Final = ("uv ", "pipx ")
"""How commands begin that are not ours, nor their flags."""

NAMESAKES: Final = "orchestrator/core/jobs/escalation_text.py"
"""Rules for what follows trouble have words of their own."""

COMMANDS: Final = re.compile(
    r"(?<![\w-])--[a-z][a-z-]+|\borchestrator [a-z]+\b(?! (?:is|has|of|and|that|to)\b)|Ctrl[-+]C"
)
"""What people type."""

ASKING: Final = frozenset(
    {
        "startswith",
        "endswith",
        "removeprefix",
        "removesuffix",
        "partition",
        "rpartition",
        "split",
        "rsplit",
        "find",
        "index",
        "count",
    }
)
"""How a text is asked what it says."""

SENTENCE: Final = re.compile(r"[A-Za-z]{2,} [A-Za-z]{2,}|^ [a-z]{2,} $|^[a-z]{3,}: $")

FOREIGN: Final = {
    "orchestrator/core/text/error_text.py",
    "orchestrator/formats/input/csv.py",
    "orchestrator/formats/text/json_text.py",
    "orchestrator/ledger/sqlite/database.py",
    "orchestrator/ledger/holder_text.py",
}
"""They ask what others say: tracebacks, the errors of the standard library and of SQLite, and who wrote a lock's file."""

EMULATOR: Final = ("orchestrator/api/emulation/", "orchestrator/emulator/")

REPEATS: Final = "orchestrator/client/jobs/retries.py"


def commands(modules: Sequence[Module]) -> list[str]:
    return [
        f"{module.name}: {match[0]}"
        for module in modules
        if module.name.startswith(BELOW_API)
        for _, text in module.texts()
        if not text.startswith(OTHER_PROGRAMS)
        for match in COMMANDS.finditer(text)
    ]


def keys(modules: Sequence[Module]) -> list[str]:
    """Keys of settings; one of a single word may be anybody's."""
    return [
        f"{module.name}: {text}"
        for module in modules
        if module.name.startswith(BELOW_API) and module.name != NAMESAKES
        for _, text in module.texts()
        if "-" in text and text in RUNS.settings and text not in CAUSES
    ]


def declared_twice(modules: Sequence[Module]) -> list[str]:
    """Keys that stand in more files than the one that declares them; the emulator's settings are its own."""
    homes: dict[str, set[str]] = defaultdict(set)
    for module in modules:
        if not module.name.startswith(EMULATOR) and module.name != NAMESAKES:
            for _, text in module.texts():
                homes[text.removeprefix("--")].add(module.name)
    return [key for key in RUNS.settings if "-" in key and key not in CAUSES and len(homes[key]) > 1]


def sentences(modules: Sequence[Module]) -> list[str]:
    """Sentences that something is compared with, or looked for in a text: as they stand, or by a constant's name."""
    constants = {_dotted(module): dict(_constants(module)) for module in modules}
    found = []
    for module in modules:
        named = dict(_named_in(module, constants))
        asked = () if module.name in FOREIGN else (text for node in module.nodes for text in _asked(node, named))
        found += [f"{module.name}: {text!r}" for text in asked if SENTENCE.search(text)]
    return found


def _dotted(module: Module) -> str:
    return module.name.removesuffix(".py").replace("/", ".")


def _constants(module: Module) -> Iterator[tuple[str, str]]:
    for node in module.tree.body:
        if isinstance(node, ast.AnnAssign):
            text = node.value.value if isinstance(node.value, ast.Constant) else None
            if isinstance(text, str):
                yield ast.unparse(node.target), text


def _named_in(module: Module, constants: Mapping[str, Mapping[str, str]]) -> Iterator[tuple[str, str]]:
    """What the names of texts in a module stand for, its own and those that it imports, alone or with their module."""
    yield from constants[_dotted(module)].items()
    for node in module.tree.body:
        if isinstance(node, ast.ImportFrom):
            for each in node.names:
                name, text = each.asname or each.name, constants.get(node.module or "", {}).get(each.name)
                if text is not None:
                    yield name, text
                for constant, of_module in constants.get(f"{node.module}.{each.name}", {}).items():
                    yield f"{name}.{constant}", of_module


def _asked(node: ast.AST, named: Mapping[str, str]) -> Iterator[str]:
    match node:
        case ast.Compare(left=left, comparators=others):
            parts = [left, *others]
        case ast.Call(func=ast.Attribute(attr=name), args=parts) if name in ASKING:
            pass
        case _:
            return
    for part in parts:
        for each in part.elts if isinstance(part, ast.Tuple | ast.Set | ast.List) else [part]:
            yield from _texts_in(each, named)


def _texts_in(node: ast.expr, named: Mapping[str, str]) -> Iterator[str]:
    match node:
        case ast.Constant(value=str() as text):
            yield text
        case ast.Name() | ast.Attribute() if (name := ast.unparse(node)) in named:
            yield named[name]
        case ast.JoinedStr(values=parts):
            for part in parts:
                yield from _texts_in(part.value if isinstance(part, ast.FormattedValue) else part, named)
        case _:
            return


def repetitions(modules: Sequence[Module]) -> list[str]:
    """Loops in which a request is sent, which is how a request would be repeated: by itself, or, where the loop pauses,
    by a function of the same module.
    """
    found = []
    for module in modules:
        if module.name == REPEATS or ".send(" not in module.text:
            continue
        senders = _senders(module)
        for loop in module.nodes:
            if isinstance(loop, ast.For | ast.AsyncFor | ast.While):
                calls = _calls(loop)
                pauses = any("sleep" in ast.unparse(call.func) for call in calls)
                found += [
                    f"{module.name}: {ast.unparse(call)}"
                    for call in calls
                    if _sends(call, senders if pauses else frozenset())
                ]
    return found


def _calls(node: ast.AST) -> list[ast.Call]:
    return [call for call in ast.walk(node) if isinstance(call, ast.Call)]


def _sends(call: ast.Call, senders: AbstractSet[str]) -> bool:
    name = ast.unparse(call.func)
    _, _, last = name.rpartition(".")
    return last in senders or (last == "send" and "transport" in name.lower())


def _senders(module: Module) -> set[str]:
    """The functions in which a request is sent, or which call one of these."""
    functions = {
        node.name: _calls(node) for node in module.nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    senders: set[str] = set()
    while more := {name for name, calls in functions.items() if any(_sends(call, senders) for call in calls)} - senders:
        senders |= more
    return senders


RULES: Final = (
    Rule("commands below the api", commands, {"orchestrator/core/a.py": 'text = "give --max-attempts"\n'}),
    Rule("keys of settings below the api", keys, {"orchestrator/core/a.py": 'key = "max-attempts"\n'}),
    Rule(
        "keys of settings in several files",
        declared_twice,
        {"orchestrator/a.py": 'key = "max-attempts"\n', "orchestrator/b.py": 'flag = "--max-attempts"\n'},
    ),
    Rule(
        "sentences that are parsed",
        sentences,
        {
            "orchestrator/core/a.py": 'OVER: Final = "the run is over"\nif a == "it is over": pass\n',
            "orchestrator/core/b.py": "from orchestrator.core import a\nif why.startswith((a.OVER,)): pass\n",
        },
    ),
    Rule(
        "repetitions of requests",
        repetitions,
        {
            "orchestrator/account/a.py": "while True:\n    await self._transport.send(request)\n",
            "orchestrator/account/b.py": (
                "def a(): self._transport.send(b)\ndef b(): self.a()\n"
                "while True:\n    self.b()\n    await self._sleep(1)\n"
            ),
        },
    ),
)
