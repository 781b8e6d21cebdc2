"""Which members of outputs become files, and what each file is called: `output.image=out/{custom_id}.png`.

A name is made of what people wrote, and of ids, which come from whoever wrote the rows. No id leads anywhere: in it is
written as `%` and a number what means something to a file system, so that two ids never make one name.
"""

import re
from collections.abc import Sequence
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Final

import msgspec

from orchestrator.core.text.name_match import nearest

ROOT: Final = "output"
PLACEHOLDERS: Final = ("custom_id", "n")
OF_FLOWS: Final = ("fire", "previous", "flow")
"""What placeholders begin with that pipelines fill in."""

EACH: Final = "*"
"""The part of a path that means each element of a list."""

NAME_BYTES_MAX: Final = 200
"""The longest name of a file or folder: file systems take 255, and something is added while it is written."""

OWN_BYTES_MAX: Final = 100
"""How much of that people may write themselves."""

CUT: Final = "%~"
"""What stands before the checksum of an id that was cut: no other name has it."""

_FORM: Final = "write it as output.MEMBER=FILE, as in output.image=out/{custom_id}.png"
_PART: Final = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_UNSAFE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f/\\:*?\"<>|%\u202a-\u202e\u2066-\u2069\ud800-\udfff]|^[.~ -]|[. ]$")
"""Of an id, what is written by its number: what separates or escapes names somewhere, what turns a line of text around,
and what hides a file or looks like an option.
"""

_RESERVED: Final = re.compile(r"(?i)(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|$)")
"""What names a device, on some systems, whatever its folder and its ending."""


class SaveRule(msgspec.Struct, frozen=True):
    """A member of outputs, and what the files are called that it becomes."""

    path: tuple[str, ...]
    """Where it is, below the output; a part may be a number, or `EACH`."""

    template: str

    @property
    def member(self) -> str:
        """What people call it."""
        return ".".join((ROOT, *self.path))

    @property
    def is_of_flow(self) -> bool:
        """Whether the name of a flow, or its time, is to be filled in before anything is saved."""
        return any(_word_of(match) in OF_FLOWS for match in _PART.finditer(self.template))

    @property
    def folder(self) -> str:
        """The folder that no file of it leaves: of the template, what stands before the first name that differs."""
        return _split(self.template)[0]


def parse_save(text: str) -> SaveRule:
    """The rule that `text` is. Raises `ValueError`."""
    member, equals, template = text.partition("=")
    root, *path = member.strip().split(".")
    if not equals or root != ROOT or not all(path):
        raise ValueError(f'"{text:.80}" names no member of outputs; {_FORM}')
    template = template.strip()
    used = [match[1] for match in _PART.finditer(template) if _is_placeholder(match)]
    if path.count(EACH) > 1:
        raise ValueError(f"{member.strip():.80} has {EACH} twice, and files are numbered by one of them")
    if "custom_id" not in used:
        raise ValueError(f'"{template:.80}" would be one file for all rows; name {{custom_id}} in it')
    if (EACH in path) is not ("n" in used):
        raise ValueError(f"{{n}} numbers the elements of a list, and {EACH} means each: write both, or neither")
    _check_names(template)
    return SaveRule(tuple(path), template)


def path_of(member: str) -> tuple[str, ...]:
    """Where that is, below the output, which people call `member`."""
    return tuple(member.split(".")[1:])


def format_save(rule: SaveRule) -> str:
    """The text that it was."""
    return f"{rule.member}={rule.template}"


def check_apart(rules: Sequence[SaveRule]) -> None:
    """Raises `ValueError` where two of them mean one member, or one file."""
    for number, rule in enumerate(rules):
        for other in rules[:number]:
            if rule.template == other.template:
                raise ValueError(f"{rule.member} and {other.member} would be one file; give each a name of its own")
            shorter, longer = sorted((rule.path, other.path), key=len)
            if all(EACH in pair or pair[0] == pair[1] for pair in zip(shorter, longer, strict=False)):
                raise ValueError(f"{rule.member} is in {other.member}, or the other way round; name either")


def file_parts(rule: SaveRule, custom_id: str, n: int = 1) -> tuple[str, ...]:
    """What leads from the folder of `rule` to a file: folders, if any, and its name. `n`: which element of a list."""
    return tuple(_name(part, custom_id, n) for part in _split(rule.template)[1])


def numbered(name: str, number: int) -> str:
    """The name of a file that is the `number`th to be called `name`."""
    path = PurePosixPath(name)
    return name if number == 1 else f"{path.stem}-{number}{path.suffix}"


def _name(part: str, custom_id: str, n: int) -> str:
    """A part of a template as a name."""
    safe = _UNSAFE.sub(_escaped, custom_id) or "%"
    over = len(_filled(part, safe, n).encode()) - NAME_BYTES_MAX
    if over > 0:
        mark = CUT + sha256(custom_id.encode()).hexdigest()[:16]
        kept = max(0, NAME_BYTES_MAX - (len(_filled(part, mark, n).encode())))
        safe = safe.encode()[:kept].decode(errors="ignore") + mark
    name = _filled(part, safe, n)
    return f"%{ord(name[0]):02X}{name[1:]}" if _RESERVED.match(name) else name


def _escaped(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode(errors="surrogatepass"))


def _filled(part: str, custom_id: str, n: int) -> str:
    values = {"custom_id": custom_id, "n": str(n)}
    return _PART.sub(lambda match: match[0][0] if match[1] is None else values.get(match[1], ""), part)


def _split(template: str) -> tuple[str, list[str]]:
    """The folder of a template, and the parts of names below it."""
    parts = template.split("/")
    first = next((place for place, part in enumerate(parts) if _has_placeholder(part)), len(parts) - 1)
    folder = _filled("/".join(parts[:first]), "", 0)
    return folder or ("/" if template.startswith("/") else "."), parts[first:]


def _has_placeholder(part: str) -> bool:
    return any(map(_is_placeholder, _PART.finditer(part)))


def _is_placeholder(match: re.Match[str]) -> bool:
    """Whether it stands for something. Raises `ValueError` for one that there is not."""
    if match[0] in ("{{", "}}"):
        return False
    if match[1] is None:
        raise ValueError(f"a brace stands alone; write {2 * match[0]} for one that means itself")
    if _word_of(match) in OF_FLOWS:
        return True
    if match[1] not in PLACEHOLDERS:
        near = nearest(match[1], PLACEHOLDERS)
        advice = f"did you mean {near}?" if near else "there are {custom_id} and {n}"
        raise ValueError(f"there is no placeholder {match[0]:.40}; {advice}")
    return True


def _word_of(match: re.Match[str]) -> str:
    return (match[1] or "").partition(":")[0]


def _check_names(template: str) -> None:
    if "\0" in template:
        raise ValueError("this is no file name")
    for part in _split(template)[1]:
        if part in ("", ".", ".."):
            raise ValueError(f'"{template:.80}": below {{custom_id}} no part of a path is empty, "." or ".."')
        if len(_filled(part, "", 0).encode()) > OWN_BYTES_MAX:
            raise ValueError(f'"{part:.40}...": a name is longer than {OWN_BYTES_MAX} bytes, without its id')
