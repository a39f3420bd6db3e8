"""Members from elsewhere: registered in a script, or brought by an installed package."""

import re
import sys
from dataclasses import replace
from itertools import count

import numpy as np
import pytest
from markupsafe import Markup

import excitor as ex
from benchmarks.house import ROOT
from excitor.experiments.export.export import Export, check_export, example_model, export_of, export_problems
from excitor.experiments.report.page import BUILT_IN, SECTIONS, example_reports, rendered, report_page
from excitor.identify.logs.formats import FORMATS, check_log_format, read_raw, sniff
from excitor.identify.methods import METHODS, Method, answer, check_estimator, conformance_problem
from excitor.robots.errors import InvalidRobot
from excitor.robots.friction import TABLE, check_friction, element_rows
from excitor.robots.load import robot_from_toml, robot_text
from excitor.robots.parameters import layout
from tests.campaigns import CAMPAIGN, COLUMNS, write_campaign
from tests.pages import Reader

LAB = re.findall("```python\n(.*?)```", (ROOT / "docs" / "logs.md").read_text("utf-8"), re.DOTALL)[0]


@pytest.mark.parametrize("name", [name for name in METHODS if name not in ("iv", "didim", "input-error")])
def test_built_in_estimators_conform(name):
    check_estimator(METHODS[name])
    assert METHODS[name].fit(conformance_problem()[0]).estimate is not None


@pytest.mark.parametrize("name", ["iv", "didim", "input-error"])
def test_estimators_that_simulate_refuse_where_there_is_no_controller(name):
    check_estimator(METHODS[name], may_refuse=True)
    assert answer(name, conformance_problem()[0]).refused
    with pytest.raises(ex.ExcitorError, match="refuses a problem that has an answer"):
        check_estimator(METHODS[name])


@pytest.mark.parametrize("form", ["mjcf", "py", "c"])
def test_built_in_exports_conform(form):
    model = example_model()
    assert not list(export_problems(export_of(form, model)))
    assert export_of(form, model) == export_of(form, model)


@pytest.mark.parametrize("name", TABLE)
def test_built_in_friction_conforms(name):
    check_friction(TABLE[name])


@pytest.mark.parametrize("name", FORMATS.loaded())
def test_built_in_log_formats_conform(name):
    check_log_format(FORMATS[name])


@pytest.mark.parametrize("section", BUILT_IN, ids=lambda section: section.name)
def test_built_in_sections_conform(section):
    ex.check_section(section)
    assert rendered(section, example_reports()["complete"]) is not None


def lstsq(W, y):
    return np.linalg.lstsq(W, y, rcond=None)[0]


@pytest.mark.parametrize(
    ("method", "match"),
    [
        (ex.estimator("none", "Finds nothing.", lambda W, y: 0.0 * W[0]), "100 % off those of the true model"),
        (ex.estimator("nan", "Finds no numbers.", lambda W, y: np.nan * W[0]), "refuses a problem|not finite"),
        (ex.estimator("short", "Finds too few.", lambda W, y: W[0, :2]), "shape"),
        (ex.estimator("", "Has no name.", lstsq), "its name is ''"),
        (Method("broken", "Fails.", lambda problem: 1 / 0), "raises ZeroDivisionError"),
        (Method("odd", "Answers otherwise.", lambda problem: 3), "gives int, expected an Answer"),
    ],
)
def test_estimators_that_do_not_conform_are_refused(method, match):
    try:
        with pytest.raises(ex.ExcitorError, match=match):
            ex.register(method)
        assert method.name not in ex.estimators()
    finally:
        ex.unregister(method.name)


def test_an_estimator_that_draws_at_random_is_refused():
    rng = np.random.default_rng(0)
    random = ex.estimator("random", "Draws.", lambda W, y: lstsq(W, y) * (1 + 1e-3 * rng.normal()))
    with pytest.raises(ex.ExcitorError, match="different values when it is run again"):
        ex.register(random)


@pytest.mark.parametrize(
    ("form", "match"),
    [
        (Export("deep", "../model.txt", lambda model: "x"), "expected a plain name"),
        (Export("empty", "model.txt", lambda model: ""), "content is empty"),
        (Export("broken", "model.txt", lambda model: model.magic), "raises AttributeError"),
    ],
)
def test_exports_that_do_not_conform_are_refused(form, match):
    with pytest.raises(ex.ExcitorError, match=match):
        check_export(form)


def of_name(data):
    return {"name": data.get("name", "")}


@pytest.mark.parametrize(
    ("template", "context", "match"),
    [
        ("<script>alert(1)</script>", of_name, "an element <script>"),
        ("<p>{{ name }}", of_name, "<p> is not closed"),
        ("<p><b>{{ name }}</p></b>", of_name, "</p> closes no open element"),
        ("<p><table></table></p>", of_name, "<table> stands in <p>"),
        ("<li>{{ name }}</li>", of_name, "<li> stands in <no element>"),
        ("<img src='https://example.org/a.png'>", of_name, "src='https://example.org/a.png', which asks"),
        ("<p style='background:url(//a/b)'>{{ name }}</p>", of_name, "a style asks for something outside"),
        ("<p title={{ name }}>a</p>", of_name, "with hostile names, an attribute is (src|onerror)="),
        ("<a href='{{ name }}'>a</a>", of_name, "an attribute is href='my-cell'"),
        ("<p>{{ name|safe }}</p>", of_name, "No filter named 'safe'"),
        ("{% autoescape false %}{{ name }}{% endautoescape %}", of_name, "turns escaping off"),
        ("<p>{{ nome }}</p>", of_name, "'nome' is undefined"),
        (
            "<p>{{ parts|length }}</p>",
            lambda data: {"parts": data["errors"]},
            "of a report that is empty section .* raises KeyError|without 'errors'",
        ),
        ("<p>nan N m</p>", of_name, "its text has 'nan'"),
        ("<p></p>", of_name, "it is empty; return None"),
        ("<p>{{ x }}</p>", lambda data: {"x": next(COUNT)}, "another text the second time"),
        ("<p>a</p>", lambda data: data.setdefault("mine", {}), "changes the report's data"),
    ],
)
def test_sections_that_do_not_conform_are_refused(template, context, match):
    with pytest.raises(ex.ExcitorError, match=f"section 'their-own'.*({match})"):
        ex.register(ex.Section("their-own", "Own", context, template))
    assert "their-own" not in SECTIONS


COUNT = count()


def test_no_section_marks_text_as_markup():
    shy = ex.Section("shy", "Shy", lambda data: {"name": Markup(data.get("name", ""))}, "<p>{{ name }}.</p>")
    ex.check_section(shy)
    assert rendered(shy, {"name": "<script>"}) == "<p>&lt;script&gt;.</p>"


def test_built_in_names_are_kept():
    with pytest.raises(ex.ExcitorError, match="'wls' is the name of a built-in member"):
        ex.register(ex.estimator("wls", "Takes a name.", lstsq))
    with pytest.raises(ValueError, match="int cannot be registered"):
        ex.register(3)


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Install a package that brings members: one that works, one that cannot be imported, one that does not conform."""
    (tmp_path / "their_package.py").write_text(
        "import numpy as np\nimport excitor as ex\n"
        "good = ex.estimator('their-lstsq', 'Plain.', lambda W, y: np.linalg.lstsq(W, y, rcond=None)[0])\n"
        "bad = ex.estimator('their-zero', 'Zero.', lambda W, y: 0.0 * W[0])\n"
        "drag = ex.FrictionLaw('their-drag', lambda dq, q, term: (abs(dq) * dq)[:, None], dissipates=True)\n"
        "pump = ex.FrictionLaw('their-pump', lambda dq, q, term: -dq[:, None], dissipates=True)\n"
        "size = ex.Section('their-size', 'Size', lambda data: {'n': len(data)}, '<p>{{ n }}</p>')\n"
        "image = ex.Section('their-image', 'Image', lambda data: {}, '<img src=\"http://a/b.png\">')\n"
    )
    (tmp_path / "their_logs.py").write_text(
        LAB.replace("ex.register(lab)", "odd = ex.LogFormat('odd', fits, read, example)")
    )
    info = tmp_path / "their_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[excitor.estimators]\ntheir-lstsq = their_package:good\ntheir-zero = their_package:bad\n"
        "their-lost = no_such_module_of_theirs:lost\ntheir-other = their_package:good\n"
        "[excitor.friction]\ntheir-drag = their_package:drag\ntheir-pump = their_package:pump\n"
        "[excitor.log_formats]\nlab = their_logs:lab\nodd = their_logs:odd\n"
        "[excitor.report_sections]\ntheir-size = their_package:size\ntheir-image = their_package:image\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    names = ("lstsq", "zero", "lost", "other", "drag", "pump", "size", "image")
    for name in (*(f"their-{name}" for name in names), "lab"):
        ex.unregister(name)
    for name in ("their_package", "their_logs"):
        sys.modules.pop(name, None)


def test_installed_members_are_loaded_when_they_are_named(installed):
    assert METHODS["wls"].name == "wls"
    assert {"their-lstsq", "their-zero"} <= set(ex.estimators())
    assert "their_package" not in sys.modules
    found = answer("their-lstsq", conformance_problem()[0])
    assert np.allclose(found.estimate.values, answer("ols", conformance_problem()[0]).estimate.values, rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("their-lost", "package their-package.*cannot be imported.*update or uninstall it"),
        ("their-other", "package their-package.*its member is named 'their-lstsq'; the entry point must have the same"),
        ("their-zero", "package their-package.*fails its conformance suite.*off those of the true model"),
    ],
)
def test_broken_packages_get_a_sentence(installed, name, match):
    with pytest.raises(ex.ExcitorError, match=match):
        answer(name, conformance_problem()[0])


def with_friction(model):
    element = f'[[friction.element]]\nparameter = "Fd"\nmodel = "{model}"\nsenses = {{ base_joint = 1.0 }}\n'
    return robot_from_toml(f"{robot_text('rotradi')}\n{element}", "rotradi with friction of a package")


def test_an_installed_friction_law_is_a_column_of_a_robot_that_names_it(installed):
    robot = with_friction("their-drag")
    dq = np.array([[1.0, 2.0, 3.0], [-2.0, 0.0, 0.0]])
    Y = ex.regressor(robot, ex.Motion(0.0 * dq, dq, 0.0 * dq))
    assert Y[:, 0, layout(robot).index("Fd")].tolist() == [1.0, -4.0]
    ex.unregister("their-drag")
    assert "their-drag" not in TABLE


def test_an_installed_friction_law_that_does_not_conform_gets_a_sentence(installed):
    with pytest.raises(ex.ExcitorError, match="package their-package.*claims that it dissipates, and drives"):
        element_rows("their-pump")
    with pytest.raises(InvalidRobot, match="is 'no-such-law', expected 'viscous'"):
        with_friction("no-such-law")


def test_registered_friction_is_forgotten():
    ex.register(ex.FrictionLaw("oil", lambda dq, q, term: dq[:, None], dissipates=True, rising=True))
    assert element_rows("oil")[0].dissipates
    with pytest.raises(ValueError, match="coulomb is taken"):
        ex.register(ex.FrictionLaw("coulomb", lambda dq, q, term: dq[:, None]))
    ex.unregister("oil")
    assert not element_rows("oil")


@pytest.fixture
def lab():
    """Register the format that the documentation shows."""
    shown = {}
    exec(LAB, shown)
    yield shown["lab"]
    ex.unregister("lab")


def test_a_registered_log_format_is_found_by_its_content(tmp_path, lab):
    path = tmp_path / "run.log"
    lab.example(path)
    assert "lab" in ex.log_formats()
    assert sniff(path)[0] == "lab"
    log = ex.read_log(path)
    assert (log.raw.format, round(log.sample_rate_hz)) == ("lab", 100)
    assert [signal.kind for signal in log.signals] == ["position", "torque"]
    assert np.allclose(log.signal("torque").values[:, 0], np.arange(20) / 5)
    ex.unregister("lab")
    with pytest.raises(ex.InvalidLog, match="format is 'lab', expected one of ros_bag"):
        read_raw(path, "lab")


def test_a_campaign_reads_logs_of_an_installed_format(tmp_path, installed):
    """The format is named by campaign.toml, and imported where it is read."""
    (tmp_path / "campaign").mkdir()
    folder = write_campaign(tmp_path / "campaign", 20.0, CAMPAIGN.replace(COLUMNS, '[log]\nformat = "lab"\n'))
    for log in (folder / "logs").iterdir():
        t, *columns = np.loadtxt(log, delimiter=",", skiprows=1).T
        table = np.column_stack([t, *np.radians(columns[:3]), *columns[3:]])
        np.savetxt(log, table, header="LAB 1", comments="", fmt="%.8f")
    assert "their_logs" not in sys.modules
    ex.Campaign(folder).identify()
    assert "their_logs" in sys.modules
    assert ex.load_model(folder).error < 0.1
    (folder / "campaign.toml").write_text(CAMPAIGN.replace(COLUMNS, '[log]\nformat = "odd"\n'))
    with pytest.raises(ex.ExcitorError, match="package their-package.*conformance suite.*of the format 'lab'"):
        ex.Campaign(folder).identify()
    (folder / "campaign.toml").write_text(CAMPAIGN.replace(COLUMNS, '[log]\nformat = "lost"\n'))
    with pytest.raises(ex.ExcitorError, match="log.format: is 'lost', expected one of ros_bag, .*lab, odd"):
        ex.Campaign(folder).identify()


def furlongs(read, path, _):
    found = read(path)
    return replace(found, channels=tuple(replace(channel, unit="furlong") for channel in found.channels))


def careless(read, path, _):
    try:
        return read(path)
    except ex.InvalidLog:
        raise KeyError("t") from None


def unsteady(read, path, times):
    found = read(path)
    first, *others = found.channels
    return replace(found, channels=(replace(first, values=first.values + next(times)), *others))


def lenient(read, path, _):
    try:
        return read(path)
    except ex.InvalidLog:
        clock = ex.Clock(None, np.arange(3))
        return ex.Recording(str(path), "lab", (ex.Channel("q", np.zeros(3), clock),))


def nameless(read, path, _):
    try:
        return read(path)
    except ex.InvalidLog:
        raise ex.InvalidLog("log", "is odd") from None


def backward(path):
    path.write_text("LAB 1\n0 1 2\n2 1 2\n1 1 2\n")


@pytest.mark.parametrize(
    ("name", "change", "match"),
    [
        ("lab", {"fits": lambda head: 2}, "the example of ros_bag is taken|fits must give 2 for its own files alone"),
        ("lab", {"fits": lambda head: 0}, "the example of lab is taken for that of csv"),
        ("lab", {"read": lambda path: 3}, "read gives int, expected a Recording"),
        ("lab", {"read": lambda path: 1 / 0}, "its example cannot be read: ZeroDivisionError"),
        ("lab", {"example": lambda path: None}, "its example cannot be read: FileNotFoundError"),
        ("lab", {"like": furlongs}, "is a position in 'furlong', expected one of rad"),
        ("lab", {"like": careless}, "empty: raises KeyError .'t'.; raise InvalidLog to refuse"),
        ("lab", {"like": unsteady}, "reads its example differently again"),
        ("lab", {"like": lenient}, "other bytes: is read, expected an InvalidLog"),
        ("lab", {"like": nameless}, "empty: the refusal does not name the file: log"),
        ("lab", {"example": backward}, "the time of q0 goes back"),
        ("other", {}, "its recording is of .* and of the format 'lab'"),
        ("Bad name", {}, "its name is 'Bad name', expected small letters"),
        ("lab", {"fits": None}, "fits cannot be called"),
    ],
)
def test_log_formats_that_do_not_conform_are_refused(lab, name, change, match):
    like, times = change.pop("like", None), count()
    if like is not None:
        change["read"] = lambda path: like(lab.read, path, times)
    ex.unregister("lab")
    with pytest.raises(ex.ExcitorError, match=match):
        ex.register(replace(lab, name=name, **change))
    assert name not in ex.log_formats()


def test_sections_of_scripts_and_packages_are_in_a_campaigns_report(installed, tmp_path):
    """A registered section, one of a package, and a sentence where a package's section does not conform."""
    folder = write_campaign(tmp_path, 6.0, f"{CAMPAIGN}[identify]\nconsistent = false\n")
    worst = ex.Section(
        "worst-joint",
        "Worst <joint>",
        lambda data: (
            {"joints": zip(data["robot"]["joints"], data["errors"][0]["model"]["relative"], strict=True)}
            if "errors" in data and "robot" in data and data["errors"][0]["model"]
            else None
        ),
        "{% call table(['joint', ('error', 'n')]) %}{% for joint, x in joints %}"
        "<tr><td>{{ joint }}</td>{{ number(x|percent, x) }}</tr>{% endfor %}{% endcall %}",
    )
    try:
        ex.register(worst)
        ex.Campaign(folder).identify().report()
    finally:
        ex.unregister("worst-joint")
    page = (folder / "report.html").read_text()
    parts = dict(re.findall('<section class="card" id="([a-z-]+)">(.*?)</section>', page, re.DOTALL))
    assert "<h2>Worst &lt;joint&gt;</h2>" in parts["worst-joint"]
    assert parts["worst-joint"].count("<tr>") == 1 + 3
    assert re.search("<h2>Size</h2>\\s*<p>[0-9]+</p>", parts["their-size"])
    assert "fails its conformance suite" in parts["their-image"]
    assert "<img" not in page
    Reader(page)
    assert "worst-joint" not in SECTIONS
    ex.unregister("their-size")
    assert 'href="#worst-joint"' not in report_page({})
