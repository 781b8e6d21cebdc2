"""Which members of outputs become files, and what becomes of those that cannot."""

from functools import partial
from typing import Annotated, Final

from orchestrator.core.outputs.save_rules import SaveRule, format_save
from orchestrator.settings.lanes.member_lanes import MemberLanes
from orchestrator.settings.parsers import save_parsers
from orchestrator.settings.setting import Panel, Setting, setting_of
from orchestrator.settings.value_types import Kind, ValueType, one_of, whole
from orchestrator.settings.words_and_defaults import OnUnsaved

LINK_BYTES_MAX_DEFAULT: Final = 1_000_000_000

_file: Final = partial(Setting, panel=Panel.FILES)
_set_once: Final = partial(Setting, panel=Panel.FILES, has_flag=False)


class SaveSettings(MemberLanes, frozen=True, kw_only=True):
    """The part of a run's settings that is about files made of its outputs, after that about its lanes."""

    save: Annotated[
        tuple[SaveRule, ...],
        _file(
            "save",
            ValueType(
                Kind.LIST,
                "output.MEMBER=FILE",
                save_parsers.parse_saves,
                lambda rules: tuple(map(format_save, rules)),
                by_lines=True,
            ),
            "Makes a file of [a member of each output](save-files.md) that is Base64, a data URL or a link, as in"
            " `output.image=out/{custom_id}.png`; its path, size and SHA-256 stand in its place. Repeatable.",
            default="outputs stay as they came",
            brief="Makes files of members of outputs",
        ),
    ] = ()
    save_from: Annotated[
        tuple[str, ...],
        _set_once(
            "save-from",
            ValueType(Kind.LIST, "NETWORK", save_parsers.parse_networks, tuple),
            "A network that is not public from which [links](save-files.md#links) may be fetched all the same, as in"
            " `10.2.0.0/16`.",
            default="none",
        ),
    ] = ()
    save_bytes_max: Annotated[
        int,
        _set_once("save-bytes-max", whole(1), "The largest file that a link may lead to, in bytes."),
    ] = LINK_BYTES_MAX_DEFAULT
    on_unsaved: Annotated[
        OnUnsaved,
        _set_once(
            "on-unsaved",
            one_of(OnUnsaved),
            "What becomes of a result of which [a member cannot be saved](save-files.md#what-cannot-be-saved). `keep`:"
            " the member stays, and says why. `fail`: the job has failed (class `invalid_output`).",
        ),
    ] = OnUnsaved.KEEP

    @property
    def saved_members(self) -> tuple[str, ...]:
        """What people call the members that become files, in one order."""
        return tuple(sorted(rule.member for rule in self.save))


SAVE: Final[Setting[tuple[SaveRule, ...]]] = setting_of(SaveSettings, "save")
