"""The live page of `excitor watch --serve`: for whoever has its token, in a browser, as long as the command runs."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request

import numpy as np
import pytest

from benchmarks.watch import NO_LOAD, begin_day, draw_day, log_heading, log_lines, next_cycle, tool_load, write_campaign
from excitor.experiments.campaign import open_campaign
from excitor.experiments.verbs.watch import run_watch
from excitor.experiments.watch.live import MOST_CYCLES, LivePage
from excitor.experiments.watch.session import begin_session, open_basis, take
from excitor.experiments.watch.sources import open_source
from excitor.robots.errors import ExcitorError
from excitor.robots.load import load
from tests.browser import ATTACK, Browser, Page, in_browser

CYCLE_S = 6.0


@pytest.fixture(scope="module")
def day():
    return draw_day(load("rotradi"), 3, cycle_s=CYCLE_S)


@pytest.fixture(scope="module")
def cycles(day):
    hours = begin_day(day)
    return [next_cycle(hours, tool_load(day, 0.5) if k >= 26 else NO_LOAD) for k in range(30)]


@pytest.fixture
def cell(tmp_path, day):
    write_campaign(tmp_path, day, f"period_s = {CYCLE_S}")
    return tmp_path


@pytest.fixture
def session(cell):
    return begin_session(open_basis(open_campaign(cell)))


def ask(live, path, **headers):
    """Ask the server for a path: status, headers and content."""
    connection = http.client.HTTPConnection(live.host, timeout=10)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    return answer.status, dict(answer.getheaders()), answer.read()


def test_only_the_token_opens_the_page(session):
    with LivePage(session) as live:
        token, other = live.token, "A" * len(live.token)
        assert len(token) >= 32
        assert urllib.request.urlopen(live.address).status == 200
        assert ask(live, f"/data?token={token}")[0] == 200
        for path in ("/", "/data", f"/?token={other}", f"/data?token={token[:-1]}", "/?token=", "/data?token=%ff"):
            status, _, content = ask(live, path)
            assert (status, token.encode() in content, b"parameters" in content) == (403, False, False)
        assert ask(live, f"/../../etc/passwd?token={token}")[0] == 404
        host = live.host
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"http://{host}/")


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://example.org"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Host": "example.org"},  # a name that was made to lead here
    ],
)
def test_other_origins_get_nothing(session, headers):
    with LivePage(session) as live:
        for path in ("/", "/data"):
            status, told, content = ask(live, f"{path}?token={live.token}", **headers)
            assert status == 403
            assert b"parameters" not in content
            assert not any(name.startswith("Access-Control") for name in told)


def test_what_has_not_changed_is_not_sent_again(session):
    with LivePage(session) as live:
        version = json.loads(ask(live, f"/data?token={live.token}")[2])["version"]
        assert ask(live, f"/data?token={live.token}&version={version}")[::2] == (204, b"")
        live.update(session)
        assert ask(live, f"/data?token={live.token}&version={version}")[0] == 200


def test_a_watch_that_ends_at_once_is_not_served(cell):
    with pytest.raises(ExcitorError, match="leave out --once and --json"):
        run_watch(cell, once=True, serve=True)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    started = Browser(tmp_path_factory.mktemp("profile"))
    yield started
    started.close()


def write(cell, day, cycles):
    q, tau = (np.concatenate([cycle[k] for cycle in cycles]) for k in (0, 1))
    (cell / "live.csv").write_text(log_heading(day.robot) + log_lines(0.0, q, tau))


def taken(session, cell):
    """The cycles of the log, as the watch cuts them."""
    source = open_source(open_campaign(cell), cell / "live.csv", {})
    return [(batch, *cycle) for batch in source.news() for cycle in batch.cycles]


@in_browser
def test_the_page_updates_in_place(browser, session, cell, day, cycles):
    write(cell, day, cycles)
    found = taken(session, cell)
    with LivePage(session) as live:
        page = Page(browser, live.address)
        state = "document.getElementById('state').textContent"
        assert page.run(state) == "Waiting for the first cycle"
        page.run("window.same = true")

        def go(some):
            for batch, samples, log, t in some:
                live.cycle(session, take(session, samples, process=batch.process, log=log, t=t, clock=t + batch.ahead))
            live.update(session, [f"Problem {ATTACK}"])
            time.sleep(0.4)

        go(found[:3])
        assert page.run(state).startswith("Learning what is healthy")
        go(found[3:25])
        assert page.run(state) == "✓ As before"
        assert page.run("document.querySelectorAll('table.sortable tbody tr').length") == len(session.basis.model.names)
        assert ATTACK.replace("\u202e", "\\u202e") in page.run("document.getElementById('problems').innerText")
        go(found[25:])
        assert "alarm" in page.run(state)
        assert "kg more at the tool" in page.run("document.getElementById('alarms').innerText")
        assert page.run("document.querySelectorAll('#surprise path.curve').length") >= 2
        assert page.run("window.same")  # never loaded anew
        assert page.run("document.querySelectorAll('img').length") == 0
        assert page.said() == []
        other = Page(browser, "about:blank")
        assert (
            other.run(f"fetch('{live.address.replace('/?', '/data?')}').then(a => a.text()).catch(e => 'nothing')")
            == "nothing"
        )
        other.close()
    time.sleep(1.0)
    assert page.run(state) == "The watch has ended"
    page.close()


@in_browser
@pytest.mark.slow
def test_an_hour_of_cycles_needs_no_more_memory(browser, session, cell, day, cycles):
    """Six hundred cycles of six seconds, within a minute."""
    write(cell, day, cycles[:26])
    found = taken(session, cell)
    sizes, began = [], time.monotonic()
    with LivePage(session) as live:
        page = Page(browser, live.address)
        page.ask("HeapProfiler.enable")
        for k in range(600):
            batch, samples, log, t = found[k % len(found)]
            t += CYCLE_S * len(found) * (k // len(found))
            live.cycle(session, take(session, samples, process=batch.process, log=log, t=t, clock=t + batch.ahead))
            live.update(session)
            time.sleep(0.03)
            if k in (MOST_CYCLES + 20, 599):
                time.sleep(1.0)
                page.ask("HeapProfiler.collectGarbage")
                nodes = page.run("document.querySelectorAll('*').length")
                content = len(ask(live, f"/data?token={live.token}")[2])
                sizes.append((page.ask("Runtime.getHeapUsage")["usedSize"], nodes, content))
        page.close()
    assert time.monotonic() - began < 60.0
    (heap, nodes, content), (later, nodes_later, content_later) = sizes
    assert later < 1.05 * heap + 100_000
    assert nodes_later <= nodes + 10
    assert content_later < 1.05 * content


@pytest.mark.slow
def test_the_command_serves_until_it_is_interrupted(cell, day, cycles):
    write(cell, day, cycles[:5])
    command = [sys.executable, "-m", "excitor.experiments.cli", "watch", str(cell), "--log", str(cell / "live.csv")]
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    started = subprocess.Popen(
        [*command, "--serve"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=environment,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    told = ""
    for line in started.stderr:
        told += line
        if address := re.search(r"http://127\.0\.0\.1:\d+/\?token=[\w-]+", told.replace("\n", "")):
            break
    assert address, told
    assert urllib.request.urlopen(address[0], timeout=10).status == 200
    started.send_signal(signal.SIGINT)
    assert started.wait(30) == 0
    started.stderr.close()
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(address[0], timeout=10)
