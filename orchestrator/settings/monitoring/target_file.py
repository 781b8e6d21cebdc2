"""Reads who can be told from the configuration file, and says with file and line what is wrong there."""

import re
from pathlib import Path
from typing import Any, Final

from orchestrator.core.pipelines.receivers import is_receiver
from orchestrator.errors import UsageError
from orchestrator.settings.configuration_file import ConfigurationFile, Layer, Section, by_key, layer_in
from orchestrator.settings.monitoring.dashboard_settings import DASHBOARDS, DashboardSettings
from orchestrator.settings.monitoring.notify_targets import NotifyTarget, TargetKind, Targets, target_problems
from orchestrator.settings.setting import Setting, setting_of, settings_in
from orchestrator.settings.tables.table_names import NOTIFY_TABLE

OF_TARGETS: Final = Section(by_key(settings_in(NotifyTarget)), table=NOTIFY_TABLE)
"""What can be said of one."""

URL: Final[Setting[str]] = setting_of(DashboardSettings, "url")
_HOW: Final = f'{NOTIFY_TABLE} has a table for each target, as in [{NOTIFY_TABLE}.ops] and, below it, kind = "slack"'
_KIND: Final = "kind"


def read_targets(file: ConfigurationFile) -> Targets:
    """The targets of a configuration file, by name. Raises `UsageError` with file and line."""
    return {name: _target(file.path or Path(), name, members) for name, members in file.targets.items()}


def read_dashboard_url(file: ConfigurationFile) -> str:
    """Where the file says that people reach the dashboard; empty where it does not. Raises `UsageError`."""
    given = file.of_section(DASHBOARDS).get(URL.key)
    if given is None:
        return ""
    try:
        return URL.value_type.read(given.texts)
    except ValueError as error:
        raise UsageError(f"{given.origin}: {error}") from None


def _target(path: Path, name: str, members: object) -> NotifyTarget:
    where = _Place(path, name)
    if not isinstance(members, dict):
        raise UsageError(f"{where}: {_HOW}")
    if ":" in name or not is_receiver(name):
        raise UsageError(
            f"{where}: this is no name of a target; it begins with a letter and has letters, digits, dashes and"
            " underscores, 40 at most"
        )
    for key in members:
        layer_in({key: members[key]}, OF_TARGETS, where.at(key))
    layer = layer_in(members, OF_TARGETS, str(where))
    if _KIND not in layer:
        raise UsageError(f"{where}: it does not say its kind; write kind = one of {', '.join(TargetKind)}")
    values = {
        setting.name: _value(setting, layer, where) for setting in OF_TARGETS.settings.values() if setting.key in layer
    }
    for key, why in target_problems(values[_KIND], frozenset(layer)):
        raise UsageError(f"{where.at(key) if key else where}: {f'{key}: ' if key else ''}{why}")
    return NotifyTarget(**values)


def _value(setting: Setting[Any], layer: Layer, where: "_Place") -> Any:
    try:
        return setting.value_type.read(layer[setting.key].texts)
    except (ValueError, UsageError) as error:
        raise UsageError(f"{where.at(setting.key)}: {setting.key}: {error}") from None


class _Place:
    """Where a target stands: as text its table's line."""

    def __init__(self, path: Path, name: str) -> None:
        self._path, self._name = path, name

    def __str__(self) -> str:
        return self.at("")

    def at(self, key: str) -> str:
        """The line of that key, or of the table where it has none of its own."""
        line = _line(self._path, self._name, key)
        number = "" if line is None else f":{line}"
        return f"{self._path}{number}: [{NOTIFY_TABLE}.{self._name:.80}]"


def _line(path: Path, name: str, key: str) -> int | None:
    """The number of the line in which a target says `key`, or else begins; None where that cannot be told."""
    word = rf"(?:{re.escape(name)}|\"{re.escape(name)}\"|'{re.escape(name)}')"
    header = re.compile(rf"\s*\[\s*{NOTIFY_TABLE}\s*\.\s*{word}\s*\]")
    spelled = re.sub(r"\\?[-_]", "[-_]", re.escape(key))
    member = re.compile(rf"\s*\"?{spelled}\"?\s*=")
    found: int | None = None
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if found is None:
            found = number if header.match(line) else None
        elif line.lstrip().startswith("["):
            break
        elif key and member.match(line):
            return number
    return found
