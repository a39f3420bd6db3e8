"""Charts and the picture of the robot, driven in a browser as a person would: mouse, fingers, keys, files."""

import csv
import io
import json
import math
import re
import time
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from excitor.experiments.report import html
from excitor.experiments.report.page import example_reports, report_page
from excitor.experiments.report.plan import plan_page
from excitor.robots.load import load
from tests.browser import ATTACK, Browser, Page, dirty, in_browser
from tests.pages import robot_plan

pytestmark = in_browser
STYLES = ("page.css", "report.css", "compare.css")
PANELS = '[data-chart="motion"] .panel'
SPAN = f"""[...document.querySelectorAll('{PANELS}')].map(panel => {{
  const texts = [...panel.querySelectorAll('text.tick[text-anchor=middle]')];
  const at = texts.map(text => [Number(text.getAttribute('x')), parseFloat(text.textContent)]);
  const [[x0, t0], [x1, t1]] = [at[0], at.at(-1)], window_ = panel.querySelector('svg.window');
  const t = x => t0 + (x - x0) / (x1 - x0) * (t1 - t0), left = Number(window_.getAttribute('x'));
  return [t(left), t(left + Number(window_.getAttribute('width')))];
}})"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    started = Browser(tmp_path_factory.mktemp("profile"))
    yield started
    started.close()


@pytest.fixture(scope="module")
def plan():
    """Signals as they come: constant, not a number in places, missing altogether."""
    plan = robot_plan("iiwa", frames=40, samples=300)
    run = plan["runs"][0]
    run["q"][0] = [0.5] * 300
    run["dq"][0] = [math.nan if 100 < k < 120 else x for k, x in enumerate(run["dq"][0])]
    run["ddq"][0] = [math.nan] * 300
    run["tau"][0] = [0.0] * 300
    plan["robot"]["joints"][1] = "=1+1"
    return plan


@pytest.fixture(scope="module")
def file(plan, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "plan.html"
    path.write_text(plan_page(plan), encoding="utf-8")
    return path


@pytest.fixture
def page(browser, file):
    opened = Page(browser, file.as_uri())
    yield opened
    assert opened.said() == []
    opened.close()


def spans(page):
    """First and last moment that each panel shows; all must show the same."""
    found = np.array(page.run(SPAN))
    assert np.ptp(found, axis=0).max() < 0.2, "charts of one run share their time"
    return found.mean(axis=0)


def test_odd_signals_are_drawn(page, plan):
    drawn = page.run(f"[...document.querySelectorAll('{PANELS}')].map(p => p.innerHTML)")
    assert len(drawn) == 4 * 7
    assert not any(re.search(r"NaN|undefined|Infinity", text) for text in drawn)
    constant, broken, missing, zero = drawn[:4]
    assert "no numbers" in missing
    for text, gaps in ((constant, 1), (broken, 2), (zero, 1)):
        path = re.search(r'd="([^"]+)"[^>]*class="curve', text)[1]
        assert path.count("M") == gaps
        assert path.count("L") > 250
    assert page.run("document.querySelectorAll('.failed').length") == 0


def test_the_mouse_zooms_pans_and_shows_all(page):
    left, top, width, height = page.place(f"{PANELS} svg[role=img]", 5)
    whole = spans(page)
    assert whole == pytest.approx([0, 27], abs=0.2)
    inner = lambda share: (left + 46 + share * (width - 52), top + height / 2)  # noqa: E731
    page.drag(inner(0.25), inner(0.5))
    assert spans(page) == pytest.approx([27 * 0.25, 27 * 0.5], abs=0.4)
    page.drag(inner(0.5), inner(0.0))
    assert spans(page) == pytest.approx([27 * 0.375, 27 * 0.625], abs=0.4)
    page.click(*inner(0.5), times=2)
    assert spans(page) == pytest.approx(whole, abs=0.1)
    page.wheel(*inner(0.5), -462)
    assert np.diff(spans(page)) == pytest.approx(27 / 2, abs=0.5)
    page.click(*inner(0.5), times=2)
    page.wheel(*inner(0.5), -462, ctrl=False)  # which scrolls the page, unless the chart was chosen
    assert page.run("document.activeElement.tagName") == "svg"


def test_keys_zoom_pan_and_read(page, plan):
    page.place(f"{PANELS} svg[role=img]", 5)
    page.run(f"document.querySelectorAll('{PANELS} svg[role=img]')[5].focus()")
    page.key("+")
    assert spans(page) == pytest.approx([27 * 0.25, 27 * 0.75], abs=0.4)
    page.key("ArrowRight", shift=True)
    assert spans(page)[0] == pytest.approx(27 * 0.35, abs=0.4)
    page.key("0")
    assert spans(page) == pytest.approx([0, 27], abs=0.2)
    page.key("ArrowRight")
    page.key("ArrowRight")
    words = page.run(f"document.querySelectorAll('{PANELS}')[5].querySelector('.now').innerText")
    moment = float(words.split(" s")[0])
    assert 0.0 < moment < 1.0
    page.key("Escape")
    again = page.run(f"document.querySelectorAll('{PANELS}')[5].querySelector('.now').innerText")
    assert " s" not in again


def test_fingers_zoom_and_pan(page):
    page.ask("Emulation.setTouchEmulationEnabled", enabled=True, maxTouchPoints=2)
    left, top, width, height = page.place(f"{PANELS} svg[role=img]", 5)
    at = lambda share: (left + 46 + share * (width - 52), top + height / 2)  # noqa: E731
    page.touch([at(0.4), at(0.6)], [at(0.3), at(0.7)], [at(0.1), at(0.9)])
    first = spans(page)
    assert np.diff(first) < 27 / 2
    page.touch([at(0.6)], [at(0.5)], [at(0.3)], [at(0.2)])
    second = spans(page)
    assert np.diff(second) == pytest.approx(np.diff(first), rel=0.05)
    assert second[0] > first[0] + 1.0


def test_pointing_shows_the_values_there(page, plan):
    run, k = plan["runs"][0], 4 * 2 + 3  # the torque of the third joint
    left, top, width, height = page.place(f"{PANELS} svg[role=img]", k)
    page.mouse("Moved", left + 46 + 0.4 * (width - 52), top + height / 2)
    words = page.run(
        f"[...document.querySelectorAll('{PANELS}')[{k}].querySelectorAll('.now span')].map(e => e.innerText)"
    )
    moment, value = (float(word.split()[0].replace(html.MINUS, "-")) for word in words)
    assert moment == pytest.approx(0.4 * 27, abs=0.2)
    assert value == pytest.approx(run["tau"][2][np.abs(np.array(run["time"]) - moment).argmin()], rel=0.006)


def downloaded(page, folder, selector, index=0):
    """Press a button that saves a file, and return its name and text."""
    page.browser.ask("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
    before = set(folder.iterdir())
    page.run(f"document.querySelectorAll({json.dumps(selector)})[{index}].click()")
    end = time.monotonic() + 20.0
    while time.monotonic() < end:
        new = [path for path in set(folder.iterdir()) - before if path.suffix in (".csv", ".svg")]
        if new and new[0].stat().st_size:
            return new[0].name, new[0].read_text("utf-8")
        time.sleep(0.05)
    raise AssertionError("nothing was saved")


def test_data_and_picture_are_saved(page, plan, tmp_path):
    run = plan["runs"][0]
    name, text = downloaded(page, tmp_path, f"{PANELS} .save button", 2 * 4)
    assert re.fullmatch(r"[\w-]+\.csv", name)
    header, *rows = csv.reader(io.StringIO(text))
    assert header == ["x, s", "position, °"]
    assert np.array(rows, dtype=float) == pytest.approx(
        np.column_stack([run["time"], np.degrees(run["q"][1])]), rel=1e-4
    )
    name, text = downloaded(page, tmp_path, f"{PANELS} .save button", 2 * 4 + 1)
    picture = ET.fromstring(text)
    assert picture.tag.endswith("svg")
    tags = {element.tag.rpartition("}")[2] for element in picture.iter()}
    assert "path" in tags
    assert tags <= {"svg", "rect", "line", "path", "text", "circle", "g"}
    assert "=1+1" in "".join(picture.itertext())
    curve = next(element for element in picture.iter() if "curve" in element.get("class", ""))
    assert curve.get("stroke").startswith("rgb")
    assert curve.get("fill") == "none"


def test_names_in_saved_data_are_no_formulas(browser, tmp_path):
    path = tmp_path / "report.html"
    data = example_reports()["complete"]
    data["correlation"] = {
        "names": ["=cmd|' /C calc'!A0", "+a,b", f"@{ATTACK}"],
        "matrix": np.eye(3).tolist(),
        "n_columns": 3,
    }
    path.write_text(report_page(data), encoding="utf-8")
    opened = Page(browser, path.as_uri())
    _, text = downloaded(opened, tmp_path, '[data-chart="correlation"] .save button')
    rows = list(csv.reader(io.StringIO(text)))
    assert [row[1] for row in rows[1:]] == ["'=cmd|' /C calc'!A0", "'+a,b", f"'@{html.seen(ATTACK)}"]
    assert opened.said() == []
    opened.close()


def test_keys_step_through_a_histogram_with_an_edge_missing(browser, tmp_path):
    """The example's lists are cut short: it has as many counts as edges."""
    path = tmp_path / "report.html"
    path.write_text(report_page(example_reports()["complete"]), encoding="utf-8")
    page = Page(browser, path.as_uri())
    page.run("[...document.querySelectorAll('details')].forEach(part => part.open = true)")
    page.place('[data-chart="residuals"] svg[role=img]')
    page.run("document.querySelector('[data-chart=residuals] svg[role=img]').focus()")
    for _ in range(2):
        page.key("ArrowLeft")
    words = page.run("document.querySelector('[data-chart=residuals] .now').textContent")
    assert re.match(f"[{html.MINUS}0-9]", words)
    assert page.said() == []
    page.close()


@pytest.mark.parametrize("meshes", [pytest.param(False, marks=pytest.mark.slow), True])
def test_the_robot_turns_moves_and_zooms(browser, plan, tmp_path, meshes):
    robot, path = load("iiwa"), tmp_path / "plan.html"
    if meshes:
        plan = with_meshes(plan, robot)
    path.write_text(plan_page(plan), encoding="utf-8")
    page = Page(browser, path.as_uri())
    page.ask("Emulation.setTouchEmulationEnabled", enabled=True, maxTouchPoints=2)
    left, top, width, height = page.place("#scene")
    middle = np.array([left + width / 2, top + height / 2])
    off = lambda x, y: middle + np.array([x, y])  # noqa: E731
    picture = "document.getElementById('scene').toDataURL()"
    seen = [page.run(picture)]

    def changed(what):
        seen.append(page.run(picture))
        assert seen[-1] not in seen[:-1], what

    page.drag(middle, off(60, 30))
    changed("turned by the mouse")
    page.drag(middle, off(40, 0), shift=True)
    changed("moved by the mouse with Shift")
    page.drag(middle, off(0, 30), button="right")
    changed("moved by the mouse with its right button")
    page.wheel(*middle, -300)
    changed("zoomed by the wheel")
    page.touch([middle], [off(20, 0)], [off(50, 10)])
    changed("turned by a finger")
    page.touch([middle - 30, middle + 30], [middle - 60, middle + 60])
    changed("zoomed by two fingers")
    page.run("document.getElementById('scene').focus()")
    for key, shift in (("ArrowLeft", False), ("ArrowUp", True), ("-", False)):
        page.key(key, shift)
        changed(f"key {key}")
    page.key("0")
    assert page.run(picture) == seen[0], "0 shows all again"
    if meshes:
        page.run("document.querySelector('[data-looks=volumes]').click()")
        changed("the volumes that were checked")
    assert page.said() == []
    page.close()


def with_meshes(plan, robot):
    """Give the plan's robot hulls: boxes in its capsules."""
    run, moving = plan["runs"][0], html.moving_capsules(robot)
    corners = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
    faces = [0, 1, 3, 0, 3, 2, 4, 5, 7, 4, 7, 6, 0, 1, 5, 0, 5, 4, 2, 3, 7, 2, 7, 6, 0, 2, 6, 0, 6, 4, 1, 3, 7, 1, 7, 5]
    hulls = [{"points": (corners * 600).ravel().tolist(), "faces": faces, "pose": k} for k in range(len(moving))]
    ends = np.asarray(run["frames"]["capsules"])[:, :, :3]
    turns = np.broadcast_to(np.eye(3), (*ends.shape[:2], 3, 3))
    poses = np.concatenate([turns, ends[..., None]], axis=-1).reshape(len(ends), -1)
    runs = [run | {"frames": run["frames"] | {"poses": poses.tolist()}}, *plan["runs"][1:]]
    return plan | {"hulls": hulls, "runs": runs}


INK = """(context => {
  const { data, width } = context.getImageData(0, 0, context.canvas.width, context.canvas.height), at = [];
  const violet = k => data[k] > data[k + 1] + 10 && data[k + 2] > data[k + 1] + 20;
  for (let k = 0; k < data.length; k += 4) if (violet(k)) at.push(k / 4);
  const span = values => Math.max(...values) - Math.min(...values);
  return [span(at.map(k => k % width)), span(at.map(k => Math.floor(k / width)))];
})(document.getElementById('scene').getContext('2d'))"""


@pytest.mark.parametrize("upright", [True, False])
def test_inertia_is_drawn_along_its_axes(browser, tmp_path, upright):
    """The columns of the matrix that a frame holds are the ellipsoid's axes."""
    data = example_reports()["complete"]
    turn = np.array([[0, 1, 0], [0, 0, 1], [1, 0, 0]])
    row = np.concatenate([[0, 0, 0.5], (turn if upright else turn.T).ravel()]) * html.GRID
    link = {**data["bodies"]["links"][0], "half_axes": [0.4, 0.05, 0.05], "mass_label": "prior-dominated"}
    frames = {"time": [0, 1], "capsules": [[], []], "tool": [[0, 0, 0]] * 2, "ellipsoids": [row.tolist()] * 2}
    data["bodies"] |= {"base_capsules": [], "capsules": [], "hulls": [], "links": [link], "frames": frames}
    path = tmp_path / "report.html"
    path.write_text(report_page(data), encoding="utf-8")
    page = Page(browser, path.as_uri())
    page.place("#scene")
    page.run("document.querySelector('[data-view=front]').click()")
    wide, tall = page.run(INK)
    assert (tall > 4 * wide) if upright else (wide > 4 * tall)
    assert page.said() == []
    page.close()


NAMES = r"\b(?:[XYZ]{2}|M[XYZ]|F[vcs]\w*|Ia|off)\d"
FIRST = """[...document.querySelectorAll('body *')].filter(e => e.children.length === 0 && e.getClientRects().length
  && e.getBoundingClientRect().top < innerHeight && !e.closest('script, style')).map(e => e.textContent).join(' ')"""


def test_the_first_screen_names_no_parameter(browser, plan, tmp_path):
    data = example_reports()["complete"]
    data["verdict"]["not_told"] = ["No torque ever shows XX1.", "The sign of ZZ1R is open.", "A drive's law is open."]
    data["parameters"][0] |= {"name": "ZZ1R", "regrouping": "ZZ1 + XX1"}
    for name, text in (("plan", plan_page(plan)), ("report", report_page(data))):
        path = tmp_path / f"{name}.html"
        path.write_text(text, encoding="utf-8")
        page = Page(browser, path.as_uri())
        words = page.run(FIRST)
        assert len(words) > 300
        assert not re.findall(NAMES, words)
        page.close()
    assert "The sign of ZZ1R is open." in text
    assert "A drive&#39;s law is open." in text[: text.index('id="contents"')]


@pytest.mark.parametrize("go", [True, False])
def test_warnings_stand_outside_the_green_box(go):
    data = example_reports()["complete"]
    uses = [
        {"use": "Monitoring", "go": True, "reasons": ["It is fit."]},
        {"use": "Loads", "go": None, "reasons": ["Too few."]},
    ]
    data["verdict"] |= {"go": go, "uses": uses, "virtual": "All logs are of a virtual robot."}
    text = report_page(data)
    box = text[text.index('id="verdict"') :].partition("</section>")[0]
    assert ("Too few." in box) is not go
    assert ("virtual robot" in box) is not go
    assert "Too few." in text
    assert "virtual robot" in text


def test_hostile_data_are_drawn_as_words(browser, plan, tmp_path):
    path = tmp_path / "plan.html"
    path.write_text(plan_page(dirty(plan)), encoding="utf-8")
    page = Page(browser, path.as_uri(), width=390)
    name, text = downloaded(page, tmp_path, f"{PANELS} .save button", 1)
    assert re.fullmatch(r"[\w-]+\.svg", name)
    assert {element.tag.rpartition("}")[2] for element in ET.fromstring(text).iter()} <= {
        "svg", "rect", "line", "path", "text", "circle", "g",
    }  # fmt: skip
    assert page.said() == []
    page.close()


def luminance(color):
    parts = [int(color[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [x / 12.92 if x <= 0.03928 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_words_stand_out_from_what_is_behind_them(scheme):
    """WCAG 2 asks for a contrast of 4.5 of small text."""
    root = re.findall(r":root \{(.*?)\}", html.text("page.css"), re.DOTALL)[scheme]
    colors = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})\b", root))
    pairs = [(name, back) for name in ("text", "faint", "accent", "bad") for back in ("card", "back")]
    pairs += [("good", "good-back"), ("fair", "fair-back"), ("bad", "bad-back"), ("text", "grid")]
    pairs += [("keep-in", "card"), ("keep-out", "card"), ("limit", "card")]
    for words, back in pairs:
        high, low = sorted((luminance(colors[words]), luminance(colors[back])), reverse=True)
        assert (high + 0.05) / (low + 0.05) >= 4.5, (words, back)


def test_methods_are_drawn_beside_each_other(browser, tmp_path):
    """Errors and parameters of compare.html: one method far off, one without intervals, one without a number."""
    methods = [["ols", 1.0, 0.9, 1.1], ["wls", 1.05, 1.0, 1.1], ["far", 80.0, 70.0, 90.0], ["bare", 1.1, None, None]]
    methods += [["none", None, None, None], [ATTACK, 1.0, 0.5, 1.5]]
    behind = {"low": -0.001, "high": 0.004}
    errors = [{"name": name, "total": 0.03 + 0.001 * k, "behind": behind} for k, (name, *_) in enumerate(methods)]
    parameters = [{"name": f"p{k}", "unit": "kg", "contradictions": k, "methods": methods} for k in range(14)]
    parameters.append({"name": "nothing", "unit": "kg", "contradictions": 0, "methods": [["none", None, None, None]]})
    data = {"chosen": "wls", "errors": errors, "marks": [{"name": "noise", "total": 0.031}], "parameters": parameters}
    style, script = ("\n".join(map(html.text, names)) for names in (STYLES, ("charts.js", "page.js")))
    boxes = "".join(f'<div data-chart="{name}" class="forest"></div>' for name in ("errors", "forest", "forest-rest"))
    path = tmp_path / "compare.html"
    path.write_text(
        f'<!doctype html><meta charset="utf-8"><title>a</title><style>{style}</style><body>{boxes}'
        f'<script type="application/json" id="compared">{html.embed(data)}</script><script>{script}</script>',
        encoding="utf-8",
    )
    page = Page(browser, path.as_uri(), width=1280)
    assert page.run("document.querySelectorAll('.panel').length") == 1 + 12 + 15
    assert page.run("document.querySelectorAll('.failed, img').length") == 0
    assert page.run("document.querySelector('[data-chart=forest] b').textContent") == "p13"  # contradicted most
    assert page.run("document.querySelectorAll('[data-chart=forest] .panel:first-child .far').length") == 1
    assert "no numbers" in page.run("document.querySelector('[data-chart=forest-rest]').textContent")
    left, top, width, _ = page.place('[data-chart="forest"] svg[role=img]')
    page.mouse("Moved", left + width / 2, top + 12)
    assert page.run("document.querySelector('[data-chart=forest] .now').textContent") == "ols: 1, 0.9 to 1.1"
    assert page.said() == []
    page.close()
