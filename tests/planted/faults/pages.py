"""Who may see and do what in a browser, and what pages cost."""

from tests.planted.faults.fault import Fault

_DOOR = "tests/dashboard/access/test_access_middleware.py"
_LOGIN = "tests/dashboard/access/test_login.py"
_READER = "tests/dashboard/reading/test_ledger_reader.py"
_CACHE = "tests/dashboard/reading/test_view_cache.py"

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="a link signs in more than once",
        path="orchestrator/dashboard/access/key_file.py::KeyFolder.use_link",
        old="self._link(token).unlink()",
        new="self._link(token).stat()",
        tests=(f"{_LOGIN}::test_a_link_signs_in_once_after_a_question",),
    ),
    Fault(
        name="a link is never too old",
        path="orchestrator/dashboard/access/tokens.py::Tokens.person_of_link",
        old="return _read(self._links, token, LINK_S)",
        new="return _read(self._links, token, SESSION_S)",
        tests=(f"{_LOGIN}::test_a_link_is_too_old_after_five_minutes",),
    ),
    Fault(
        name="wrong keys can be tried without end",
        path="orchestrator/dashboard/access/wrong_key_limit.py::WrongKeys.are_too_many",
        old="return len(self._wrong) == WRONG_MAX and self._clock.now() - self._wrong[0] < MINUTE_US",
        new="return False",
        tests=(f"{_LOGIN}::test_five_wrong_keys_a_minute_are_looked_at",),
    ),
    Fault(
        name="a key that was removed is taken until the dashboard starts again",
        path="orchestrator/dashboard/access/authentication.py::Visitors.tokens",
        old="if self._signed is None or self._signed[0] != key:",
        new="if self._signed is None:",
        tests=(f"{_LOGIN}::test_who_removes_the_key_has_everybody_signed_out_at_once",),
    ),
    Fault(
        name="a cookie can be read by a script",
        path="orchestrator/dashboard/login_pages.py::Login._sent",
        old="httponly=True,",
        new="httponly=False,",
        tests=(f"{_LOGIN}::test_the_cookie_is_for_this_dashboard_and_no_script",),
    ),
    Fault(
        name="a name that somebody else leads here is ours",
        path="orchestrator/dashboard/access/access_middleware.py::AccessMiddleware._misfit",
        old='if not _is_health(request.scope["path"]) and not is_our_host(request.headers.get("host", ""), own):',
        new="if False:",
        tests=(f"{_DOOR}::test_a_name_that_somebody_else_led_here_gets_nothing",),
    ),
    Fault(
        name="a page of somebody else's can have things done",
        path="orchestrator/dashboard/access/access_middleware.py::AccessMiddleware._misfit",
        old="if not is_from_our_page(request.headers, own):",
        new="if False:",
        tests=(f"{_DOOR}::test_only_a_page_of_ours_can_have_anything_done",),
    ),
    Fault(
        name="who only looks can act",
        path="orchestrator/dashboard/access/authentication.py::Visitors.may_act",
        old="return person is not None and person.may_act and not self.settings.read_only",
        new="return person is not None and not self.settings.read_only",
        tests=(f"{_LOGIN}::test_a_viewer_looks_and_does_nothing_whatever_is_sent",),
    ),
    Fault(
        name="the header of a proxy is believed of anybody",
        path="orchestrator/dashboard/access/authentication.py::Visitors._by_proxy",
        old="if header is None or peer is None or peer.host not in self.settings.proxies:",
        new="if header is None or peer is None:",
        tests=(f"{_DOOR}::test_the_proxy_names_people_and_nobody_else_can",),
    ),
    Fault(
        name="viewers see inputs and outputs",
        path="orchestrator/dashboard/scenes.py::Scenes.shows",
        old="is_viewer = person is None or not person.may_act",
        new="is_viewer = False",
        tests=(f"{_DOOR}::test_payloads_are_for_those_who_may_act_unless_hidden_for_all",),
    ),
    Fault(
        name="a redacted member can be searched for",
        path="orchestrator/dashboard/payload_redaction.py::Payloads.may_search",
        old="return not any(_overlap(member, path) for member in members for path in self.redacted)",
        new="return True",
        tests=(
            "tests/dashboard/test_payload_redaction.py::test_nobody_can_ask_for_what_is_redacted_until_the_answer_is_yes",
        ),
    ),
    Fault(
        name="a body of unknown length is read to its end",
        path="orchestrator/dashboard/access/access_middleware.py::AccessMiddleware.__call__",
        old="receive = limited(receive)",
        new="",
        tests=(f"{_DOOR}::test_a_body_is_64_kib_at_most_whether_it_says_so_or_not",),
    ),
    Fault(
        name="a question to the ledger goes on after its time",
        path="orchestrator/ledger/sqlite/connection.py::ThreadedConnection._hurried",
        old="timer = loop.call_later(patience_s, self._conn.interrupt)",
        new="timer = loop.call_later(600 * patience_s, self._conn.interrupt)",
        tests=(f"{_READER}::test_a_question_that_takes_too_long_is_really_ended",),
    ),
    Fault(
        name="pages can write into the ledger",
        path="orchestrator/ledger/sqlite/database.py::_hasty",
        old='"PRAGMA query_only = ON"',
        new='"PRAGMA query_only = OFF"',
        tests=(f"{_READER}::test_nothing_can_be_written_through_it",),
    ),
    Fault(
        name="each tab has its view computed",
        path="orchestrator/dashboard/reading/view_cache.py::ViewCache._holds",
        old="return age < FRESH_US or (age < UNCHANGED_US and await self._reader.version() == place.version)",
        new="return False",
        tests=(f"{_CACHE}::test_tabs_that_ask_at_once_share_what_is_computed",),
    ),
    Fault(
        name="the dashboard keeps the key of its parent",
        path="orchestrator/cli/framework/dashboard_child.py::child_environment",
        old="kept = {name: value for name, value in environ.items() if _KEPT.fullmatch(name)}",
        new="kept = dict(environ)",
        tests=(
            "tests/cli/framework/test_dashboard_child.py::test_the_child_gets_no_key_and_nothing_that_settings_may_name",
        ),
    ),
    Fault(
        name="a run that a budget stopped is offered to go on as it is",
        path="orchestrator/core/diagnosis/needs.py::_of_hold",
        old="kind=NeedKind.ON_HOLD, cause=hold.why, cure=Cure.CHANGE_BRAKES",
        new="kind=NeedKind.ON_HOLD, cause=hold.why, cure=Cure.CONTINUE",
        tests=("tests/core/diagnosis/test_needs.py::test_to_go_past_an_amount_or_a_time_that_is_changed",),
    ),
    Fault(
        name="a breaker that tries single jobs needs nobody",
        path="orchestrator/core/diagnosis/needs.py",
        old="frozenset({Brake.FAILURES, Brake.CANARY, Brake.BUDGET})",
        new="frozenset({Brake.BREAKER, Brake.FAILURES, Brake.CANARY, Brake.BUDGET})",
        tests=(
            "tests/core/diagnosis/test_needs.py::test_a_breaker_that_tries_single_jobs_needs_somebody_and_no_button",
        ),
    ),
    Fault(
        name="a version of a pipeline shows where messages go",
        path="orchestrator/core/pipelines/definition_changes.py::_changes",
        old="if not _NOT_SHOWN.isdisjoint(path):",
        new="if False:",
        tests=("tests/core/pipelines/test_definition_changes.py::test_whom_messages_go_to_is_never_shown",),
    ),
)
