from __future__ import annotations

import email.utils
import json
import subprocess
import sys
import time
from decimal import Decimal

import pytest

from tidemill.errors import ConnectorError
from tidemill.sources.http.fetch import Fetcher, as_json_line, with_query, without_secrets


def fetcher(api, pauses=None, **more) -> Fetcher:
    pauses = [] if pauses is None else pauses
    return Fetcher(f"{api.url}/v1/orders", sleep=pauses.append, **more)


def then(*replies):
    """Answers one after the other; the last one for ever."""
    left = list(replies)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_what_may_pass_is_tried_again_with_pauses_that_double(api, status):
    api.answer = then((status, {}, {}), (status, {}, {}), (200, [1], {}))
    pauses: list[float] = []
    assert fetcher(api, pauses).fetch(f"{api.url}/v1/orders").body == [1]
    assert pauses == [0.5, 1.0]


def test_retry_after_is_honoured_in_seconds_and_as_a_moment_up_to_a_minute(api):
    soon = email.utils.formatdate(time.time() + 20, usegmt=True)
    api.answer = then(
        (429, {}, {"Retry-After": "7"}), (503, {}, {"Retry-After": soon}), (429, {}, {"Retry-After": "86400"}), [1]
    )
    pauses: list[float] = []
    fetcher(api, pauses).fetch(f"{api.url}/x")
    assert pauses[0] == 7
    assert 15 < pauses[1] <= 20
    assert pauses[2] == 60


def test_tries_end(api):
    api.answer = then((500, {}, {}))
    pauses: list[float] = []
    with pytest.raises(ConnectorError) as error:
        fetcher(api, pauses, retries=3).fetch(f"{api.url}/v1/orders?token=geheim")
    assert error.value.problem == f"{api.url}/v1/orders answered 500 Internal Server Error 4 times."
    assert len(api.asked) == 4
    assert len(pauses) == 3


@pytest.mark.parametrize(("status", "remedy"), [(401, "Check its credentials."), (404, "Check its url and params")])
def test_what_will_not_pass_is_not_tried_again(api, status, remedy):
    api.answer = then((status, {}, {}))
    with pytest.raises(ConnectorError) as error:
        fetcher(api).fetch(f"{api.url}/v1/orders")
    assert error.value.code == "source.http_status"
    assert error.value.remedy.startswith(remedy)
    assert len(api.asked) == 1


def test_a_host_that_does_not_answer_is_named():
    with pytest.raises(ConnectorError) as error:
        Fetcher("http://127.0.0.1:9/x", retries=1, sleep=lambda _: None).fetch("http://127.0.0.1:9/x")
    assert error.value.code == "source.unreachable"
    assert error.value.problem == (
        "http://127.0.0.1:9/x could not be reached, 2 times: [Errno 111] Connection refused."
    )


def test_an_answer_that_takes_too_long_is_tried_again(api):
    slow = [True]

    def answer(_):
        if slow.pop() if slow else False:
            time.sleep(0.5)
        return [1]

    api.answer = answer
    assert fetcher(api, timeout=0.1).fetch(f"{api.url}/x").body == [1]


def test_an_answer_that_is_not_json_is_an_error(api):
    api.answer = then((200, b"<html>", {}))
    with pytest.raises(ConnectorError, match="did not answer in JSON"):
        fetcher(api).fetch(f"{api.url}/x")


def test_a_connection_is_kept_for_the_next_request(api):
    asking = fetcher(api)
    api.answer = then((503, {}, {}), [1])
    for _ in range(3):
        asking.fetch(f"{api.url}/x")
    assert len({asked.connection for asked in api.asked}) == 1


def test_a_proxy_of_the_environment_is_asked_instead(api, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", api.url)
    found = Fetcher("http://games.invalid/v1").fetch("http://games.invalid/v1/x?day=1")
    assert (found.url, api.asked[0].headers["Host"]) == ("http://games.invalid/v1/x?day=1", "games.invalid")


def test_redirects_end(api):
    api.answer = then((302, {}, {"Location": f"{api.url}/x"}))
    with pytest.raises(ConnectorError, match="could not be reached: Exceeded maximum allowed redirects"):
        fetcher(api).fetch(f"{api.url}/x")


def test_headers_go_to_their_own_host_only(api):
    secret = {"Authorization": "Bearer geheim", "X-Key": "geheim"}
    with pytest.raises(ConnectorError, match="another host"):
        fetcher(api, headers=secret).fetch("http://127.0.0.1:9/x")
    other = api.url.replace("127.0.0.1", "localhost")
    api.answer = then((302, {}, {"Location": f"{other}/else"}), [1])
    assert fetcher(api, headers=secret).fetch(f"{api.url}/x").body == [1]
    assert secret.items() <= api.asked[0].headers.items()
    assert not {name.lower() for name in secret} & {name.lower() for name in api.asked[1].headers}


def test_only_who_asks_imports_what_it_takes():
    code = (
        "import sys, tidemill\nfrom tidemill.sources.http.fetch import Fetcher\n"
        "tidemill.Api('https://host'), Fetcher('https://host')\n"
        "assert not {'httpx', 'tenacity'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_only_http_is_asked(api, tmp_path):
    (tmp_path / "x").write_text("[]")
    for wrong in (f"file://{tmp_path}/x", "http://host:none/x", "host/x"):
        with pytest.raises(ConnectorError, match="no address of HTTP"):
            Fetcher("http://host/x").fetch(wrong)
    api.answer = then((302, {}, {"Location": f"file://{tmp_path}/x"}))
    with pytest.raises(ConnectorError, match="no address of HTTP"):
        fetcher(api).fetch(f"{api.url}/x")


def test_a_body_is_posted_as_json(api):
    fetcher(api, method="POST", body=b'{"a": 1}').fetch(f"{api.url}/x")
    assert (api.asked[0].method, api.asked[0].body) == ("POST", b'{"a": 1}')
    assert api.asked[0].headers["Content-Type"] == "application/json"


def test_numbers_keep_every_digit(api):
    api.answer = then((200, b'{"a": 0.12345678901234567890123, "b": 12345678901234567890, "c": 1e400}', {}))
    body = fetcher(api).fetch(f"{api.url}/x").body
    assert body["a"] == Decimal("0.12345678901234567890123")
    line = as_json_line({**body, "text": 'a "quoted" line\nand more ü', "none": None, "list": [Decimal("1.50")]})
    assert line == (
        '{"a":0.12345678901234567890123,"b":12345678901234567890,"c":1E+400,'
        '"text":"a \\"quoted\\" line\\nand more \\u00fc","none":null,"list":[1.50]}'
    )
    assert json.loads(line)["text"] == 'a "quoted" line\nand more ü'


def test_a_query_has_each_parameter_once():
    assert with_query("https://host/x?a=1&b=2", {"b": "3", "c": "4 5"}) == "https://host/x?a=1&b=3&c=4+5"


def test_an_address_is_shown_without_what_may_be_secret():
    assert without_secrets("https://bob:geheim@host:8443/v1?token=geheim#x") == "https://host:8443/v1"
