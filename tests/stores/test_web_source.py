"""Objects of a web server that does everything wrong that a server can: whole, the same, or an error."""

import logging

import httpx
import pytest

from orchestrator.stores.object_url import ObjectUrl
from orchestrator.stores.ranged_reader import opened
from orchestrator.stores.repeats import TRIES
from orchestrator.stores.store_errors import StoreError
from orchestrator.stores.web_source import WebSource
from tests.stores.web_server import WebObject, serving

DATA = bytes(range(256)) * 4_000


def read(served: WebObject) -> bytes:
    with opened(WebSource(served.url), sleep=lambda _: None) as stream:
        return stream.read()


def refused(served: WebObject) -> StoreError:
    with pytest.raises(StoreError) as error:
        read(served)
    return error.value


def test_it_is_read_by_one_request() -> None:
    with serving(WebObject(DATA)) as served:
        assert read(served) == DATA
        assert served.asked == [("bytes=0-", "")]


def test_where_the_connection_breaks_it_goes_on_at_that_byte_if_it_is_still_the_same() -> None:
    with serving(WebObject(DATA, cut_after=[100_000, 0, 7])) as served:
        assert read(served) == DATA
        assert served.asked[1:] == [
            ("bytes=100000-", '"first"'),
            ("bytes=100000-", '"first"'),
            ("bytes=100007-", '"first"'),
        ]


def test_where_a_server_falls_silent_it_is_asked_again_at_that_byte_and_that_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    served = WebObject(DATA, silent_after=[-1, 0, 100_000])
    with serving(served), opened(WebSource(served.url, silence_s=0.5), sleep=lambda _: None) as stream:
        assert stream.read() == DATA
    firsts = [int(wanted.removeprefix("bytes=").rstrip("-")) for wanted, _ in served.asked]
    assert firsts[:3] == [0, 0, 0]
    assert firsts == sorted(firsts)
    assert firsts[3] > 0, "a slow machine may fall silent itself, so that it is asked more often"
    assert f"{served.url}: the server says nothing (ReadTimeout); asked again in 0.5 s (1 of 7)" in caplog.text


def test_one_that_stays_silent_is_given_up() -> None:
    served = WebObject(DATA, silent_after=[-1] * TRIES)
    with serving(served), pytest.raises(StoreError) as refused:
        opened(WebSource(served.url, silence_s=0.05), sleep=lambda _: None)
    assert refused.value.strerror == f"the server says nothing (ReadTimeout), asked {TRIES} times; try again later"
    assert len(served.asked) == TRIES


def test_what_has_come_is_read_while_the_rest_does_not_come() -> None:
    served = WebObject(DATA, piece=100, silent_after=[1_000])
    with serving(served), opened(WebSource(served.url)) as stream:
        assert stream.read(1_000) == DATA[:1_000]
        assert len(served.asked) == 1


def test_a_server_without_ranges_is_read_from_its_beginning_again() -> None:
    with serving(WebObject(DATA, has_ranges=False, cut_after=[600_000])) as served:
        assert read(served) == DATA


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_server_that_cannot_for_now_is_asked_again(status: int) -> None:
    with serving(WebObject(DATA, refuse=[status, status])) as served:
        assert read(served) == DATA


def test_one_that_never_can_is_given_up() -> None:
    with serving(WebObject(DATA, refuse=[503] * TRIES)) as served:
        assert refused(served).strerror == f"the server answers 503, asked {TRIES} times; try again later"
        assert len(served.asked) == TRIES


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (404, "there is no such object"),
        (410, "there is no such object"),
        (403, "access is denied (403)"),
        (401, "access is denied (401)"),
        (418, "the server answers 418"),
    ],
)
def test_what_no_time_mends_is_told_at_once(status: int, told: str) -> None:
    with serving(WebObject(DATA, refuse=[status])) as served:
        assert refused(served).strerror == told
        assert len(served.asked) == 1


@pytest.mark.parametrize("has_conditions", [True, False])
@pytest.mark.parametrize("has_ranges", [True, False])
def test_one_that_was_changed_in_the_middle_is_no_mixture(has_ranges: bool, has_conditions: bool) -> None:
    served = WebObject(
        DATA, has_ranges=has_ranges, has_conditions=has_conditions, cut_after=[500_000], then=[DATA[::-1]]
    )
    with serving(served):
        assert refused(served).strerror == "it was changed meanwhile"


def test_one_that_became_shorter_is_no_end() -> None:
    with serving(WebObject(DATA, tag="", cut_after=[500_000], then=[DATA[:1000]])) as served:
        assert refused(served).strerror == "it was changed meanwhile"


def test_what_is_announced_and_never_comes_is_no_end() -> None:
    with serving(WebObject(DATA, said_more=10)) as served:
        assert refused(served).strerror == "it was changed meanwhile"


def test_a_range_that_is_another_one_is_an_error() -> None:
    wrong = {"Content-Range": f"bytes 5-{len(DATA) - 1}/{len(DATA)}"}
    with serving(WebObject(DATA, headers=wrong)) as served:
        assert refused(served).strerror == "the server answers a range with another one"


def test_an_empty_one_is_empty() -> None:
    with serving(WebObject(b"")) as served:
        assert read(served) == b""
        assert ObjectUrl.parsed(served.url).stat().size == 0


def test_it_can_be_sought_in() -> None:
    with serving(WebObject(DATA)) as served, opened(WebSource(served.url)) as stream:
        stream.seek(-3, 2)
        assert stream.read() == DATA[-3:]
        stream.seek(700_000)
        assert stream.read(10) == DATA[700_000:700_010]
        stream.seek(len(DATA) + 5)
        assert stream.read(10) == b""


def test_it_is_looked_at_without_being_read() -> None:
    with serving(WebObject(DATA)) as served:
        place = ObjectUrl.parsed(served.url)
        assert place.exists()
        assert (place.stat().size, place.stat().identity) == (len(DATA), 'ETag "first"')
        assert {asked for asked, _ in served.asked} == {"bytes=0-0"}
        served.refuse = [404]
        assert not place.exists()


def test_a_server_that_is_not_there_is_told() -> None:
    def nobody(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("no route to https://h/f?sig=hush", request=request)

    with pytest.raises(StoreError) as error:
        opened(WebSource("https://h/f?sig=hush", httpx.MockTransport(nobody)), sleep=lambda _: None)
    assert error.value.strerror == f"the connection failed (ConnectError), asked {TRIES} times; try again later"


def test_its_query_is_in_no_log(caplog: pytest.LogCaptureFixture) -> None:
    with serving(WebObject(DATA)) as served, caplog.at_level(logging.INFO):
        with opened(WebSource(f"{served.url}?X-Amz-Signature=hush")) as stream:
            assert stream.read(3) == DATA[:3]
        httpx.get(f"{served.url}?theirs=shown")
    assert "hush" not in caplog.text
    assert "theirs=shown" in caplog.text
