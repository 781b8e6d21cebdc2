"""Where a fault is planted: a place, which has a name, and a statement there, however it is wrapped.

A place is a file, or `path::Class.method`: a class, a function, or what is assigned to a name, also inside of others.
"""

import ast
import re
from collections.abc import Iterator
from difflib import SequenceMatcher, get_close_matches
from itertools import pairwise
from textwrap import indent
from typing import Final

_BETWEEN: Final = r"(?:\s|#[^\n]*\n)*"
"""What may stand between two words of a statement, as it likes: space, ends of lines, comments."""

_COMMA: Final = "(?:," + _BETWEEN + ")?"
_CLOSING: Final = tuple(")]}")

_Named = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign


def statement(text: str) -> re.Pattern[str]:
    """What finds the statement, or the part of one, that reads `text`: space, comments and commas before a closing
    bracket are as they like."""
    words = re.findall(r"\w+|[^\w\s]", re.sub(r",\s*(?=[)\]}])", "", text))
    found = re.escape(words[0])
    for before, word in pairwise(words):
        is_apart = _is_word(before) and _is_word(word)
        found += (r"\b" if is_apart else "") + _BETWEEN + (_COMMA if word in _CLOSING else "") + re.escape(word)
    edges = (r"\b" if _is_word(words[0]) else "", r"\b" if _is_word(words[-1]) else "")
    return re.compile(found.join(edges))


def _is_word(text: str) -> bool:
    return re.match(r"\w", text) is not None


def planted(path: str, old: str, new: str, text: str) -> str:
    """`text`, which is the file of `path`, with `new` for `old`, whose lines are indented as those of `old` are.

    Raises:
        ValueError: the place is not there, or `old` does not stand there exactly once; it says what is like it.
    """
    found = [
        match
        for start, end in spans(path.partition("::")[2], text)
        for match in statement(old).finditer(text, start, end)
    ]
    if not found and not spans(path.partition("::")[2], text):
        raise ValueError(f"there is no such place as {path}{_like_place(path, text)}")
    if len(found) != 1:
        raise ValueError(f"{path}: {old!r} stands there {len(found)} times, not once{_like(path, old, text)}")
    (match,) = found
    line = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
    first, *others = new.split("\n")
    margin = line[: len(line) - len(line.lstrip())]
    return text[: match.start()] + "\n".join([first, *(indent(each, margin) for each in others)]) + text[match.end() :]


def spans(name: str, text: str) -> list[tuple[int, int]]:
    """Where what is called `name` begins and ends; there may be several (a property and its setter)."""
    if not name:
        return [(0, len(text))]
    lines = [0]
    for line in text.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    return [(lines[start], lines[end]) for each, start, end in names(ast.parse(text)) if each == name]


def names(tree: ast.AST, inside: str = "") -> Iterator[tuple[str, int, int]]:
    """Each place in a tree: its name, and the numbers of the lines at which it begins and after which it ends."""
    for node in ast.iter_child_nodes(tree):
        if not isinstance(node, _Named):
            yield from names(node, inside)
            continue
        for name in _names(node):
            start = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
            yield inside + name, start - 1, node.end_lineno or node.lineno
            yield from names(node, f"{inside}{name}.")


def _names(node: _Named) -> list[str]:
    if isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return [each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)]
    return [node.name]


def _like(path: str, old: str, text: str) -> str:
    """The statement of the place that is most like `old`."""
    wanted = " ".join(old.split("\n", maxsplit=1)[0].split())
    parts = [text[start:end] for start, end in spans(path.partition("::")[2], text)]
    lines = [line.strip() for part in parts for line in part.splitlines() if line.strip()]
    nearest = max(lines, key=lambda line: SequenceMatcher(None, wanted, line).ratio(), default="")
    return f"; most like it is: {nearest}" if nearest else ""


def _like_place(path: str, text: str) -> str:
    everything = [name for name, _, _ in names(ast.parse(text))]
    near = get_close_matches(path.partition("::")[2], everything, n=3, cutoff=0.4)
    return f"; most like it: {', '.join(near)}" if near else ""
