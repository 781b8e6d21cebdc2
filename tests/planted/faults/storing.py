"""Objects of stores that are read half or mixed, written over somebody else's, or asked for with a secret in sight."""

from tests.planted.faults.fault import Fault

_WEB = "tests/stores/test_web_source.py"
_URLS = "tests/core/text/test_object_urls.py"
_S3 = "tests/stores/test_s3_requests.py"

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="an object that is another one in the middle is read on",
        path="orchestrator/stores/web_source.py::WebSource._is_same",
        old="elif not found.is_same(self._found):",
        new="elif False:",
        tests=(f"{_WEB}::test_one_that_was_changed_in_the_middle_is_no_mixture",),
    ),
    Fault(
        name="any answer to a range is taken for that range",
        path="orchestrator/stores/web_source.py::WebSource._begin",
        old="if begins != at:",
        new="if False:",
        tests=(f"{_WEB}::test_a_range_that_is_another_one_is_an_error",),
    ),
    Fault(
        name="what httpx logs has the signature of a web address in it",
        path="orchestrator/stores/web_source.py::_WithoutQueries.filter",
        old="if _is_asking.get() and isinstance(record.args, tuple):",
        new="if False:",
        tests=(f"{_WEB}::test_its_query_is_in_no_log",),
    ),
    Fault(
        name="the signature of a web address is kept and shown",
        path="orchestrator/core/text/object_urls.py::shown_url",
        old='return _QUERY.sub("?...", url) if is_web_url(url) else url',
        new="return url",
        tests=(f"{_URLS}::test_the_query_of_a_web_address_is_shown_nowhere",),
    ),
    Fault(
        name="a URL with a password in it is taken",
        path="orchestrator/core/text/object_urls.py::checked_url",
        old='if "@" in bucket or (scheme in WEB_SCHEMES and urlsplit(text).username):',
        new="if False:",
        tests=(f"{_URLS}::test_a_user_or_password_is_refused_and_not_quoted",),
    ),
    Fault(
        name="an object that was written meanwhile is replaced",
        path="orchestrator/stores/s3_upload.py::S3Upload.complete",
        old='condition = {"IfNoneMatch": "*"} if tag is None else {"IfMatch": tag}',
        new="condition: dict[str, str] = {}",
        tests=(f"{_S3}::test_one_that_is_replaced_has_to_be_the_one_that_was_there",),
    ),
    Fault(
        name="the upload of a process at work is aborted by another",
        path="orchestrator/stores/leftover_uploads.py::abort_leftovers",
        old="fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)",
        new="pass",
        tests=(f"{_S3}::test_a_note_of_an_upload_that_cannot_be_aborted_now_stays",),
    ),
    Fault(
        name="an upload is waited for though whoever wrote it has been cancelled",
        path="orchestrator/api/outcomes/thread_writer.py::_watch",
        old="given_up.set()",
        new="pass",
        tests=(
            "tests/api/outcomes/test_thread_writer.py::test_what_is_cancelled_is_given_up_at_once_and_says_nothing_else",
        ),
    ),
    Fault(
        name="a store that says nothing is asked in the event loop, where no Ctrl-C is heard",
        path="orchestrator/stores/object_url.py::asked_about",
        old="return await to_thread.run_sync(ask_there, abandon_on_cancel=True)",
        new="return ask_there()",
        tests=("tests/stores/test_asked_about.py::test_files_are_looked_at_where_one_is_and_stores_by_a_thread",),
    ),
)
