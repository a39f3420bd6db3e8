"""The page that shows a plan: whole, harmless whatever the names are, and readable by a browser."""

import copy
import functools
import json
import math
import re

import numpy as np
import pytest

from excitor.experiments.report.html import MINUS, NONE, compact, percent, show
from excitor.experiments.report.plan import certificate_rows, forecast_rows, plan_page, relative_margin
from tests.pages import ATTACK, FAILED, Reader, browse, in_browser, robot_plan, with_script

# --- an example as a campaign would make it


@functools.cache
def _tx40():
    return robot_plan("tx40", frames=60, samples=200)


@pytest.fixture
def plan():
    return copy.deepcopy(_tx40())


# --- reading a page back


def everywhere(value, make):
    """Replace every string of a plan, except those that choose how something is drawn."""
    if isinstance(value, str):
        return make(value)
    if isinstance(value, dict):
        return {key: entry if key in ("kind", "keep") else everywhere(entry, make) for key, entry in value.items()}
    return [everywhere(entry, make) for entry in value] if isinstance(value, list) else value


def test_page_is_whole_and_needs_nothing_else(plan):
    page = plan_page(plan)
    read = Reader(page)
    assert len(page) < 1_000_000
    assert [tag for tag, _ in read.tags].count("script") == 2
    for _, attributes in read.tags:
        assert not {"src", "href", "srcset", "onclick", "onload", "onerror"} & set(attributes)
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", page)
    assert "@import" not in page
    assert "url(" not in page
    policy = next(attributes["content"] for _, attributes in read.tags if "http-equiv" in attributes)
    assert "default-src 'none'" in policy


def test_page_says_what_the_plan_says(plan):
    text = Reader(plan_page(plan)).text
    for words in ("✓ Go", "excite", "static poses", "Stäubli", "table / link j3", "YY1: its column", "[excitation]"):
        assert words in text
    plan["verdict"] = {"go": False, "reasons": ["The table is hit."]}
    text = Reader(plan_page(plan)).text
    assert "✗ No go The table is hit." in text
    del plan["verdict"]
    assert "No verdict was reached" in Reader(plan_page(plan)).text


def test_no_text_becomes_markup(plan):
    clean, dirty = plan_page(plan), plan_page(everywhere(plan, lambda text: text and text + ATTACK))
    assert "<script>document" not in dirty
    assert "<img" not in dirty
    assert [tag for tag, _ in Reader(clean).tags] == [tag for tag, _ in Reader(dirty).tags]
    read = Reader(dirty)
    assert read.data["joints"][0].endswith(ATTACK)
    assert ATTACK in "".join(read.words)


@pytest.mark.parametrize("key", ["kind", "keep"])
def test_words_that_choose_are_escaped_too(plan, key):
    for part in [*plan["zones"], *plan["runs"]]:
        part[key] = ATTACK
    assert "<script>document" not in plan_page(plan)
    Reader(plan_page(plan))


def test_missing_parts_are_left_out(plan):
    assert "No run was planned" in Reader(plan_page({})).text
    for key in plan:
        Reader(plan_page({name: value for name, value in plan.items() if name != key}))
    for key in plan["runs"][0]:
        run = {name: value for name, value in plan["runs"][0].items() if name != key}
        assert len(Reader(plan_page({**plan, "runs": [run]})).data["runs"]) == 1
    for key in ("noise", "parameters", "torque_error", "sentences", "unidentifiable"):
        Reader(plan_page({**plan, "forecast": {k: v for k, v in plan["forecast"].items() if k != key}}))
    Reader(plan_page(dict.fromkeys(plan)))
    empty = {"zones": [{}], "base_capsules": [], "runs": [{}], "forecast": {"parameters": [{}], "torque_error": [{}]}}
    Reader(plan_page({**empty, "pareto": [{}], "runs": [{"certificate": [{}], "history": [{}]}]}))


def test_what_is_no_number_is_shown_as_none(plan):
    run = plan["runs"][0]
    run["condition"], run["duration_s"] = math.inf, math.nan
    run["q"][0][3], run["tau"][1] = math.nan, np.full(len(run["time"]), np.inf)
    run["frames"]["capsules"][2][0][1] = math.nan
    run["history"][5]["best"], run["spectrum"][-1] = math.inf, 0.0
    run["certificate"][0] |= {"limit": math.inf, "margin": math.nan}
    plan["forecast"]["parameters"][0] |= {"relative": math.nan, "sigma": None, "relative_inflated": math.inf}
    page = plan_page(plan)
    data = Reader(page).data
    assert data["runs"][0]["q"][0][3] is None
    assert set(data["runs"][0]["tau"][1]) == {None}
    assert data["runs"][0]["frames"]["capsules"][2][1] is None
    assert f"Condition number</dt><dd>{NONE}</dd>" in page
    assert ">nan" not in page
    assert ">inf<" not in page


@pytest.mark.parametrize("joints", [1, 3, 7])
def test_any_number_of_joints(plan, joints):
    run = plan["runs"][0]
    plan["robot"] |= {"joints": [f"j{k}" for k in range(joints)], "units": ["m"] + ["rad"] * (joints - 1)}
    for key in ("q", "dq", "ddq", "tau"):
        run[key] = (run[key] * 2)[:joints]
        run["limits"][key] = (run["limits"][key] * 2)[:joints]
    read = Reader(plan_page(plan))
    assert len(read.data["runs"][0]["tau"]) == joints
    assert f"{joints} joint{'' if joints == 1 else 's'}." in read.text


def test_arrays_do_as_well_as_lists(plan):
    lists, run = plan_page(plan), plan["runs"][0]
    for part in (run, run["frames"], run["approach"]):
        part |= {key: np.array(part[key]) for key in ("time", "q", "dq", "ddq", "tau", "tool") if key in part}
    run["frames"]["capsules"] = np.array(run["frames"]["capsules"])
    run["spectrum"], run["correlation"]["matrix"] = np.array(run["spectrum"]), np.array(run["correlation"]["matrix"])
    assert plan_page(plan) == lists


def test_numbers_are_rounded_to_five_digits():
    data = compact({"a": [1.23456789, np.float32(2.0), np.int64(3), True, None], "b": np.array([np.nan, 1e-9 / 3])})
    assert data == {"a": [1.2346, 2, 3, True, None], "b": [None, 3.3333e-10]}


def test_certificate_begins_with_what_fails_and_then_the_least_margin(plan):
    rows = certificate_rows(
        [
            {"name": "wide", "limit": 10.0, "worst": 1.0, "margin": 9.0, "holds": True},
            {"name": "odd", "limit": None, "worst": None, "margin": None, "holds": True},
            {"name": "tight", "limit": 10.0, "worst": 9.9, "margin": 0.1, "holds": True},
            {"name": "fails", "limit": 1.0, "worst": 2.5, "margin": -1.5, "holds": False},
        ]
    )
    assert [row["name"] for row in rows] == ["fails", "tight", "wide", "odd"]
    assert relative_margin({"limit": 0.0, "worst": 0.05, "margin": 0.05}) == 1.0


def test_tiers_follow_what_was_experienced_where_known():
    rows = forecast_rows(
        [
            {"name": "a", "relative": 0.01, "relative_inflated": 0.05},
            {"name": "b", "relative": 0.01},
            {"name": "c", "relative": 0.5},
            {"name": "d", "relative": math.nan},
        ]
    )
    assert [row["tier"] for row in rows] == ["fair", "good", "poor", "open"]


def test_numbers_for_people():
    assert show(0.0000123456) == "1.235·10⁻⁵"
    assert [show(x) for x in (-1.23456, None, math.inf, "x")] == [f"{MINUS}1.235", NONE, NONE, NONE]
    assert [percent(x) for x in (0.0123, 0.256, -0.15, None, 25.0)] == [
        "1.2 %",
        "26 %",
        f"{MINUS}15 %",
        NONE,
        "over 1000 %",
    ]


# --- in a browser


PROBE = """
const told = {}, all = selector => [...document.querySelectorAll(selector)], canvas = document.getElementById('scene');
const tones = () => {
  const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  return new Set(new Uint32Array(data.buffer).filter(color => color >>> 24 === 255)).size;
};
const clock = () => parseFloat(document.getElementById('clock').textContent);
const wide = () => document.documentElement.scrollWidth - innerWidth;
const press = key => dispatchEvent(new KeyboardEvent('keydown', { key }));
told.tones = tones();
told.wide = wide();
const before = canvas.toDataURL();
document.querySelector('[data-speed="5"]').click();
press(' ');
const wait = tries => clock() > 0 || tries === 0 ? rest() : setTimeout(() => wait(tries - 1), 50);
const rest = () => {
  press(' ');
  told.clock = clock();
  const slider = document.getElementById('scrub');
  slider.value = 500;
  slider.dispatchEvent(new Event('input'));
  told.moved = canvas.toDataURL() !== before;
  const now = () => document.querySelector('.panel .now').textContent;
  told.middle = [clock(), document.getElementById('phase').textContent, now()];
  document.querySelector('[data-angle="rad"]').click();
  told.radians = now();
  document.querySelector('[data-source="approach"]').click();
  told.approach = document.getElementById('clock').textContent;
  all('table.sortable thead button')[7].click();
  const column = all('table.sortable tbody tr').map(row => row.cells[6].dataset.number);
  const known = column.filter(Boolean).map(Number);
  told.sorted = known.every((x, k) => !k || known[k - 1] <= x) && column.at(-1) === '';
  all('#tabs button')[1].click();
  told.shown = all('.run-body:not([hidden]), .run-facts:not([hidden])').map(part => part.dataset.run);
  document.body.appendChild(document.createElement('pre')).id = 'told';
  document.getElementById('told').textContent = JSON.stringify(told);
};
wait(200);
"""


@pytest.mark.slow
@in_browser
@pytest.mark.parametrize(("source", "joints"), [("tx40", 6), ("iiwa", 7), ("rotradi", 3)])
def test_browser_draws_everything(tmp_path, source, joints):
    document, said = browse(plan_page(robot_plan(source)), tmp_path, "--dump-dom", "--window-size=1280,1000")
    assert said == []
    run = document[document.index('class="run-body"') : document.index('class="certificate"')]
    assert run.count('class="panel"') == 4 * joints
    assert run.count('class="limit"') > 2 * joints
    assert run.count('class="cursor"') == 4 * joints
    for words in ("best condition number so far", "largest / smallest = ", "Most correlated pairs", "candidates tried"):
        assert words in document
    assert document.count('class="ring"') == 3
    assert FAILED not in document


@pytest.mark.slow
@in_browser
@pytest.mark.parametrize("width", [800, 1280])
def test_browser_plays_and_answers(plan, tmp_path, width):
    page = with_script(plan_page(plan), PROBE)
    document, said = browse(page, tmp_path, "--dump-dom", f"--window-size={width},1000")
    assert said == []
    told = json.loads(re.search(r'<pre id="told">(.*?)</pre>', document)[1])
    assert told["tones"] > 1000  # shaded bodies, not an empty canvas
    assert told["wide"] <= 0  # nothing is cut at the side
    assert told["clock"] > 0.0
    assert told["moved"]
    middle, phase, value = told["middle"]
    assert (middle, phase) == (13.5, "measured")
    assert math.degrees(number(told["radians"])) == pytest.approx(number(value), rel=0.01)  # shown with three digits
    assert told["approach"] == "0.00 s of 4.00 s"
    assert told["sorted"]
    assert told["shown"] == ["1", "1"]


@pytest.mark.slow
@in_browser
def test_browser_runs_no_text_of_strangers(plan, tmp_path):
    document, said = browse(plan_page(everywhere(plan, lambda text: text and text + ATTACK)), tmp_path, "--dump-dom")
    assert said == []
    assert "<title>owned" not in document
    assert "<img" not in document
    assert FAILED not in document


@pytest.mark.slow
@in_browser
def test_browser_accepts_what_is_missing_or_no_number(plan, tmp_path):
    run = plan["runs"][0]
    run["q"][0][3], run["tau"][1] = math.nan, [None] * len(run["time"])
    run["frames"]["capsules"][0][0][1] = math.nan
    run["frames"]["tool"][0][2] = math.inf
    run["history"] = [{**row, "best": None} for row in run["history"]]
    run["correlation"]["matrix"][0][1] = math.nan
    run["limits"] = {"q": [None] * 6}
    for key in ("approach", "phases"):
        del run[key]
    bare = [{"name": "bare"}, {"time": [0.0], "q": [[1.0]]}, {"frames": run["frames"], "capsules": run["capsules"]}]
    plan = {"runs": [run, *bare], "zones": [{"name": "odd", "T": None}, {"kind": "box", "T": np.eye(4)}]}
    everyone = "for (const tab of document.querySelectorAll('#tabs button')) tab.click();"
    document, said = browse(with_script(plan_page(plan), everyone), tmp_path, "--dump-dom")
    assert said == []
    assert "no candidate kept all limits" in document
    assert FAILED not in document


@pytest.mark.slow
@in_browser
def test_browser_paints_the_robot(plan, tmp_path):
    """The picture itself, not what the page says of it: many tones where the robot stands."""
    from PIL import Image

    browse(plan_page(plan), tmp_path, f"--screenshot={tmp_path / 'plan.png'}", "--window-size=1280,1000")
    with Image.open(tmp_path / "plan.png") as picture:
        assert picture.size == (1280, 1000)
        pixels = np.asarray(picture.convert("RGB"), dtype=int)[250:880, 40:840]
    orange = (pixels[..., 0] > pixels[..., 2] + 80) & (pixels[..., 1] > pixels[..., 2] + 25)
    assert orange.sum() > 1500


def number(words):
    return float(words.replace(MINUS, "-"))
