"""Every page in a browser: quiet, alone, no wider than a phone, small enough, and deaf to hostile names.

The browser is driven over a pipe (--remote-debugging-pipe: JSON messages that end with a zero byte).
"""

import copy
import importlib.util
import itertools
import json
import os
import re
import select
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from excitor.experiments.campaign import open_campaign
from excitor.experiments.identification import identify
from excitor.experiments.report.compare import compare, comparison_page
from excitor.experiments.report.data import report_data
from excitor.experiments.report.evidence import gather, runs_data
from excitor.experiments.report.html import seen
from excitor.experiments.report.page import report_page
from excitor.experiments.report.plan import plan_page
from excitor.robots.load import load

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
in_browser = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium or Chrome, and neither is on PATH")
LARGEST = 8_000_000  # bytes of a page
PHONE, DESK = 390, 1280  # px
TURN = "\u202e"  # what follows it is read from right to left
ATTACKS = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'><svg onload=alert(1)>",
    "</script><script>alert(1)</script>",
    "]]>--></style></title>",
    "{{7*7}}${7*7}",
    f"{TURN}drah",
)
ATTACK = "".join(ATTACKS)


def neighbour(name):
    """Load another file of tests: what it builds is used here too."""
    spec = importlib.util.spec_from_file_location(f"pages_{name}", Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


campaigns, plans = neighbour("test_identify"), neighbour("test_plan_page")


# --- a browser that tells everything


class Browser:
    """A headless Chromium, and what its page says."""

    def __init__(self, profile):
        (hear, self._to), (self._from, say) = os.pipe(), os.pipe()
        place = "import fcntl, os, sys\nhigh = [fcntl.fcntl(int(x), fcntl.F_DUPFD, 10) for x in sys.argv[1:3]]\n"
        place += "os.dup2(high[0], 3)\nos.dup2(high[1], 4)\nos.execv(sys.argv[3], sys.argv[3:])"
        command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"]
        command += ["--disable-dev-shm-usage", "--disable-background-networking", "--remote-debugging-pipe"]
        self.process = subprocess.Popen(
            [sys.executable, "-c", place, str(hear), str(say), *command, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(hear, say),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(hear)
        os.close(say)
        self._numbers, self._rest, self.events = itertools.count(1), b"", []

    def ask(self, method, session=None, **params):
        """Send a message, keep what is told meanwhile, return the answer."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params} | ({"sessionId": session} if session else {})
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while (said := self._read()).get("id") != number:
            self._hear(said)
        assert "error" not in said, said
        return said["result"]

    def await_event(self, method):
        while all(event.get("method") != method for event in self.events):
            self._hear(self._read())

    def _hear(self, said):
        self.events.append(said)
        if said.get("method") == "Page.javascriptDialogOpening":  # it would wait for ever
            message = {"id": next(self._numbers), "method": "Page.handleJavaScriptDialog", "params": {"accept": True}}
            os.write(self._to, json.dumps(message | {"sessionId": said["sessionId"]}).encode() + b"\0")

    def _read(self, patience=60.0):
        end = time.monotonic() + patience
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._from], [], [], max(0.0, end - time.monotonic()))
            assert ready, "the browser says nothing"
            more = os.read(self._from, 1 << 20)
            assert more, "the browser has ended"
            self._rest += more
        message, self._rest = self._rest.split(b"\0", 1)
        return json.loads(message)

    def close(self):
        self.ask("Browser.close")
        self.process.wait(30)
        os.close(self._to)
        os.close(self._from)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    started = Browser(tmp_path_factory.mktemp("profile"))
    yield started
    started.close()


# open what is folded, press what can be pressed, look at every part; then say what has come of it
USE = """
(async () => {
  const all = selector => [...document.querySelectorAll(selector)], box = element => element.getBoundingClientRect();
  const rest = time => new Promise(done => setTimeout(done, time));
  await rest(150);
  all('details').forEach(details => details.open = true);
  for (const button of all('#tabs button, #zoom button, #views button, .units button, th button')) button.click();
  const slider = document.getElementById('scrub');
  if (slider) {
    slider.value = 400;
    slider.dispatchEvent(new Event('input'));
  }
  const point = svg => new PointerEvent('pointermove', { clientX: box(svg).left + 100, clientY: box(svg).top + 20 });
  all('svg').filter(svg => box(svg).width).slice(0, 60).forEach(svg => svg.dispatchEvent(point(svg)));
  await rest(150);
  const wide = all('body *').filter(e => box(e).right > innerWidth + 1 && !e.closest('.scroll, svg'));
  return {
    title: document.title, text: document.body.innerText, markup: document.documentElement.outerHTML,
    wide: document.documentElement.scrollWidth, inner: innerWidth,
    tooWide: wide.slice(0, 5).map(e => e.outerHTML.slice(0, 120)),
    images: all('img').length, scripts: all('script').length, failed: all('.failed').length,
    handlers: all('*').filter(e => e.getAttributeNames().some(name => name.startsWith('on'))).length,
  };
})()
"""


def visit(browser, path, width):
    """Open a page, use it, and return what it is and what it said."""
    browser.events.clear()
    target = browser.ask("Target.createTarget", url="about:blank")["targetId"]
    session = browser.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
    for domain in ("Page", "Runtime", "Log", "Network", "Audits"):
        browser.ask(f"{domain}.enable", session)
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.ask("Emulation.setDeviceMetricsOverride", session, **size)
    browser.ask("Page.navigate", session, url=path.as_uri())
    browser.await_event("Page.loadEventFired")
    found = browser.ask("Runtime.evaluate", session, expression=USE, awaitPromise=True, returnByValue=True)
    assert "exceptionDetails" not in found, found["exceptionDetails"]
    browser.ask("Target.closeTarget", targetId=target)
    loud = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded", "Page.javascriptDialogOpening")
    told = found["result"]["value"]
    told["said"] = [e["params"] for e in browser.events if e.get("method") in (*loud, "Audits.issueAdded")]
    asked = ("Network.requestWillBeSent", "Network.webSocketCreated", "Network.webTransportCreated")
    urls = [e["params"].get("url") or e["params"]["request"]["url"] for e in browser.events if e.get("method") in asked]
    told["requests"] = [url for url in urls if url != path.as_uri()]
    return told


# --- the pages


@pytest.fixture(scope="module")
def identified(tmp_path_factory):
    """Identify a campaign whose folder, runs and logs bear names that no browser should obey."""
    folder = tmp_path_factory.mktemp("cell") / ATTACKS[1]
    (folder / "logs").mkdir(parents=True)
    robot, run = load("rotradi"), {}
    for k, name in enumerate(("first", "second")):
        t, motion = campaigns.motion_of(robot, 20.0, k)
        run[name] = f"{name}{ATTACKS[k + 1]}{ATTACKS[5]}{TURN}.csv"
        campaigns.write_log(folder / "logs" / run[name], robot, t, motion, k)
    text = campaigns.CAMPAIGN
    for name, file in run.items():
        text = text.replace(f'"logs/{name}.csv"', json.dumps(f"logs/{file}"))
    (folder / "campaign.toml").write_text(text, encoding="utf-8")
    return identify(open_campaign(folder))


@pytest.fixture(scope="module")
def reported(identified):
    return report_data(identified, commands=[f"excitor report {ATTACK}"])


def dirty(value):
    """Put the attack behind every text of some data, its keys left alone."""
    if isinstance(value, str):
        return value + ATTACK
    if isinstance(value, dict):
        return {key: dirty(entry) for key, entry in value.items()}
    return [dirty(entry) for entry in value] if isinstance(value, list | tuple) else value


def compared(data):
    """Compare a report with another in which some parameters changed."""
    other = copy.deepcopy({key: data[key] for key in ("schema", "kind", "name", "robot", "parameters", "errors")})
    for row in other["parameters"][::3]:
        row["value"] += 4.0 * row["sigma"]
    return compare(data, other)


def renamed(data):
    """Put the attack behind the names that `compare` lets through."""
    data = {**data, "name": ATTACK, "robot": dirty(data["robot"])}
    rows = [row | {"name": row["name"] + ATTACK, "regrouping": ATTACK} for row in data["parameters"]]
    errors = [entry | {"joints": dirty(entry["joints"])} for entry in data["errors"]]
    return data | {"parameters": rows, "errors": errors}


@pytest.fixture(scope="module")
def pages(reported, tmp_path_factory):
    """Write every page, as it is and with hostile names throughout."""
    folder = tmp_path_factory.mktemp("pages")
    texts = {
        "plan": plan_page(plans.robot_plan(frames=60, samples=150)),
        "report": report_page(reported),
        "comparison": comparison_page(compared(reported)),
        "hostile plan": plan_page(dirty(plans.robot_plan(frames=60, samples=150))),
        "hostile report": report_page(dirty(reported)),
        "hostile comparison": comparison_page(compared(renamed(reported))),
    }
    for name, text in texts.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in texts}


def check(told, path, width):
    assert told["said"] == []
    assert told["requests"] == []
    assert told["inner"] == width
    assert told["wide"] <= width, told["tooWide"]
    assert told["failed"] == 0
    assert path.stat().st_size <= LARGEST


@in_browser
@pytest.mark.parametrize("width", [DESK, PHONE])
@pytest.mark.parametrize("name", ["plan", "report", "comparison"])
def test_pages_are_quiet_alone_and_fit(browser, pages, name, width):
    told = visit(browser, pages[name], width)
    check(told, pages[name], width)
    assert told["title"].startswith(name.capitalize())


@in_browser
@pytest.mark.parametrize("name", ["plan", "report", "comparison"])
def test_hostile_names_are_words(browser, pages, name):
    clean = pages[name].read_text("utf-8")
    told = visit(browser, pages[f"hostile {name}"], PHONE)
    check(told, pages[f"hostile {name}"], PHONE)
    assert told["scripts"] == len(re.findall("<script", clean))
    assert (told["images"], told["handlers"]) == (0, 0)
    assert seen(ATTACK) in told["text"]  # all of it, as it was written
    assert TURN not in told["markup"]


def test_names_of_files_and_folders_reach_the_page_as_words(reported, pages):
    """No browser needed: what the file system bears is in the page, escaped."""
    assert reported["name"] == ATTACKS[1]
    assert TURN in reported["runs"][0]["log"]
    page = pages["report"].read_text("utf-8")
    assert "<img" not in page
    assert "<svg onload" not in page
    assert TURN not in page
    assert "{{7*7}}" in page
    assert "&#34;&gt;&lt;img src=x onerror=alert(1)&gt;" in page


@in_browser
@pytest.mark.parametrize(
    ("content", "key"),
    [
        ("<script>console.warn('a')</script>", "said"),
        ("<script>throw Error('a')</script>", "said"),
        ("<script>alert(1)</script>", "said"),
        ("<img src='http://localhost:9/a.png'>", "requests"),
        ("<script>new WebSocket('ws://localhost:9')</script>", "requests"),
        ("<style>@import 'http://localhost:9/a.css';</style>", "requests"),
    ],
)
def test_the_watch_sees_what_is_wrong(browser, tmp_path, content, key):
    """A test that nothing is said or asked for must hear it."""
    path = tmp_path / "page.html"
    path.write_text(f"<!doctype html><title>a</title><body>{content}</body>")
    assert visit(browser, path, PHONE)[key]


@in_browser
def test_the_watch_sees_what_is_too_wide(browser, tmp_path):
    path = tmp_path / "page.html"
    path.write_text('<!doctype html><title>a</title><body><div style="width:600px">a</div></body>')
    told = visit(browser, path, PHONE)
    assert told["wide"] > PHONE
    assert len(told["tooWide"]) == 1


def test_many_runs_keep_a_page_small(identified, reported):
    evidence = gather(identified)
    many = runs_data(replace(evidence, runs=evidence.runs[:1] * 60))
    assert len(report_page(reported | {"runs": many}).encode()) <= LARGEST


def test_words_that_turn_or_hide_are_written_as_numbers():
    assert seen(f"a{TURN}b\x00\ufeff") == "a\\u202eb\\u0000\\ufeff"
    assert seen("Stäubli TX-40\n\tλ ≤ 3 关节 مفصل") == "Stäubli TX-40\n\tλ ≤ 3 关节 مفصل"
    assert seen("\ud800").encode() == b"\\ud800"
