"""The settings of runs as they are at one endpoint: a member of a pool may have a lane of its own."""

from collections.abc import Iterator, Mapping

from orchestrator.settings.run_settings import RunSettings


class SettingsThere(Mapping[int, RunSettings]):
    """Those of all runs, by their numbers, at the endpoint called `name`."""

    def __init__(self, settings_of: Mapping[int, RunSettings], name: str) -> None:
        self._settings_of = settings_of
        self._name = name

    def __getitem__(self, run: int) -> RunSettings:
        return self._settings_of[run].at(self._name)

    def __iter__(self) -> Iterator[int]:
        return iter(self._settings_of)

    def __len__(self) -> int:
        return len(self._settings_of)
