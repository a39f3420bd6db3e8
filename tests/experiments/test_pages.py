"""Every page in a browser: quiet, alone, no wider than a phone, small enough, and deaf to hostile names.

The browser is driven over a pipe (--remote-debugging-pipe: JSON messages that end with a zero byte).
"""

import copy
import json
import re
from dataclasses import replace

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
from tests import campaigns
from tests.browser import ATTACK, ATTACKS, DESK, LARGEST, PHONE, TURN, Browser, check, dirty, in_browser, visit
from tests.pages import robot_plan

# --- a browser that tells everything


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    started = Browser(tmp_path_factory.mktemp("profile"))
    yield started
    started.close()


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
        "plan": plan_page(robot_plan(frames=60, samples=150)),
        "report": report_page(reported),
        "comparison": comparison_page(compared(reported)),
        "hostile plan": plan_page(dirty(robot_plan(frames=60, samples=150))),
        "hostile report": report_page(dirty(reported)),
        "hostile comparison": comparison_page(compared(renamed(reported))),
    }
    for name, text in texts.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in texts}


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
