"""What a report says is what was identified; its page is whole and harmless, and two reports compare."""

import copy
import json
import math
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from excitor.experiments.campaign import open_campaign
from excitor.experiments.cli import app
from excitor.experiments.identification import fresh_model, identify, write_model
from excitor.experiments.report import campaign as shown_campaign
from excitor.experiments.report import data as write
from excitor.experiments.report.bodies import half_axes, motion_frames
from excitor.experiments.report.campaign import alignment_entry, planned_data
from excitor.experiments.report.compare import compare, comparison_page, write_comparison
from excitor.experiments.report.data import pdf, read_report, report_data, write_report
from excitor.experiments.report.evidence import (
    PARTS,
    curve,
    gather,
    gather_on_file,
    runs_data,
    split_data,
    stretch_means,
    torque_split,
)
from excitor.experiments.report.fit import histogram
from excitor.experiments.report.html import MINUS, beside, show
from excitor.experiments.report.page import example_reports, report_page
from excitor.experiments.report.verdict import verdict_data
from excitor.identify.intervals import autocorrelation
from excitor.identify.validate import estimated_torques, standard_parameters
from excitor.identify.verdict import SIMULATION
from excitor.robots.base import base_parameters
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.errors import ExcitorError
from excitor.robots.inertia import check_consistency
from excitor.robots.load import load
from excitor.robots.parameters import layout, prior
from excitor.robots.robot import posture
from tests import campaigns, pages

ALIGNMENT = [
    {"name": "period", "found": 10.0004, "expected": 10.0, "unit": "s", "holds": True, "sentence": "As planned."},
    {"name": "sign", "found": "-", "expected": "+", "unit": "", "holds": False, "sentence": "Joint 2 is flipped."},
]


def settled(folder, seed):
    """Write logs of a robot whose friction and noise depend on the seed, and identify it."""
    return identify(open_campaign(campaigns.write_campaign(folder, noise_seed=lambda k: 10 * seed + k)))


@pytest.fixture(scope="module")
def identified(tmp_path_factory):
    return settled(tmp_path_factory.mktemp("cell"), 0)


@pytest.fixture(scope="module")
def evidence(identified):
    return gather(identified)


def copied(data):
    """Copy what is compared."""
    return copy.deepcopy({key: data[key] for key in ("schema", "kind", "name", "robot", "parameters", "errors")})


def design_of(identified):
    base = base_parameters(identified.campaign.robot)
    parameters = [{"name": name, "unit": "kg m2", "sigma": 0.5, "sigma_inflated": 2.0} for name in base.names]
    runs = [{"name": "first", "condition": 12.5, "measured_periods": 4}, {"name": "payload", "condition": 9.0}]
    return {"schema": 1, "runs": runs, "forecast": {"parameters": parameters, "noise": "typed"}}


@pytest.fixture(scope="module")
def whole(identified):
    data = report_data(identified, design=design_of(identified), commands=["excitor report my-cell"])
    return data | {"alignment": [alignment_entry(entry) for entry in ALIGNMENT]}


@pytest.fixture
def data(whole):
    """Copy what a test may change: all but the curves, which are long."""
    return {key: part if key in ("runs", "split", "bodies") else copy.deepcopy(part) for key, part in whole.items()}


def shape(value):
    """Keys of a table and of what is in it; of a list those of its first entry."""
    if isinstance(value, dict):
        return {key: shape(entry) for key, entry in value.items()}
    return [shape(value[0])] if isinstance(value, list) and value and isinstance(value[0], dict) else None


def lacking(example, data):
    """List keys of a report that the example does not have, where the report has a table."""
    if isinstance(data, list):
        return lacking(example[0], data[0]) if data and example else []
    if not isinstance(data, dict) or example is None:
        return []
    return [key for key in data if key not in example] + [
        found for key in data if key in example for found in lacking(example[key], data[key])
    ]


def test_sections_are_tried_on_a_report_of_today(whole):
    example, today = shape(example_reports()["complete"]), shape(whole)
    assert lacking(example, today) == []
    assert list(example) == list(today)
    assert all(example_reports()["complete"].values())


# --- the numbers are those of the identification


def test_parameters_are_those_of_the_identification(identified, data):
    rows = {row["name"]: row for row in data["parameters"]}
    assert tuple(rows) == identified.intervals.names
    for name, value, low, high, sigma in zip(
        identified.intervals.names,
        identified.intervals.values,
        identified.intervals.low,
        identified.intervals.high,
        identified.intervals.sigma,
        strict=True,
    ):
        row = rows[name]
        assert (row["value"], row["low"], row["high"], row["sigma"]) == (value, low, high, sigma)
    assert rows["ZZ1"]["regrouping"] == "ZZ1 + YY2 + YY3 + 0.2025 M3"
    assert rows["ZZ1"]["essential"]
    assert not rows["YZ3"]["essential"]
    assert {rows[name]["part"] for name in ("Fv1", "ZZ1")} == {"friction", "link"}
    assert rows["MY3"]["prior"] == pytest.approx(prior(load("rotradi"))[layout(load("rotradi")).index("MY3")])


def test_errors_are_those_of_the_validation(identified, data):
    held_out, training = data["errors"]
    assert not held_out["training"]
    assert training["training"]
    for entry, validation in ((held_out, identified.held_out), (training, identified.training)):
        assert entry["model"]["relative"] == validation.model.relative.tolist()
        assert entry["model"]["total"] == validation.model.relative_total
        assert set(entry["baselines"]) == {"zero", "gravity only", "prior model"}


def test_the_page_shows_the_numbers(identified, data):
    text = pages.Reader(report_page(data)).text
    found = identified.intervals
    for value, low, high, sigma in zip(found.values, found.low, found.high, found.sigma, strict=True):
        assert beside(value, sigma) in text
        assert f"{beside(low, sigma)} … {beside(high, sigma)}" in text
    for words in (
        "Held-out error",
        "Training error",
        "Joint 2 is flipped",
        "excitor report my-cell",
        "ZZ1 + YY2 + YY3",
    ):
        assert words in text
    assert show(identified.estimate.condition) in text


def test_residuals_are_measured_less_predicted(evidence):
    """Curves are of all samples, errors of the rows that count: where both are, they agree."""
    for run in evidence.runs:
        judged = evidence.held_out if run.role == "validate" else evidence.training
        rows = judged.regression
        np.testing.assert_allclose(run.residual[rows.sample, rows.joint], judged.residual, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(run.measured[rows.sample, rows.joint], rows.y, rtol=1e-12)


# --- torque split


@pytest.mark.parametrize("source", ["rotradi", "tx40", "iiwa"])
def test_the_split_adds_up(source):
    robot = load(source)
    motion = campaigns.motion_of(robot, 1.0, 3)[1]
    parts = torque_split(robot, motion, prior(robot))
    assert tuple(parts) == PARTS
    tau = inverse_dynamics(robot, motion)
    np.testing.assert_allclose(sum(parts.values()), tau, rtol=1e-9, atol=1e-9 * np.abs(tau).max())
    for name in PARTS[:3]:
        assert np.abs(parts[name]).max() > 0.0


def test_the_split_is_of_the_delivered_model(identified, evidence):
    run = evidence.shown
    assert run.role == "validate"
    predicted = estimated_torques(evidence.held_out.regression, identified.delivered)
    rows = evidence.held_out.regression
    np.testing.assert_allclose(run.predicted[rows.sample, rows.joint], predicted, rtol=1e-7, atol=1e-9)
    still = np.zeros_like(run.samples.motion.q)
    motion = replace(run.samples.motion, dq=still, ddq=still)
    parts = torque_split(evidence.robot, motion, standard_parameters(evidence.robot, identified.delivered))
    assert np.abs(parts["inertia"]).max() == np.abs(parts["Coriolis and centrifugal"]).max() == 0.0


# --- what is drawn


def test_curves_keep_every_extreme():
    x = np.random.default_rng(0).normal(size=10_007)
    drawn = curve(x, 300)
    assert len(drawn["low"]) == len(drawn["high"]) == len(stretch_means(np.arange(10_007.0), 300)) == 300
    assert max(drawn["high"]) == pytest.approx(x.max(), rel=1e-4)
    assert min(drawn["low"]) == pytest.approx(x.min(), rel=1e-4)
    assert curve(x[:300], 300)["value"] == pytest.approx(x[:300].tolist(), rel=1e-4)


def test_many_runs_stay_drawable(evidence):
    many = runs_data(replace(evidence, runs=evidence.runs[:1] * 40))
    drawn = [run for run in many if "joints" in run]
    assert (len(many), len(drawn)) == (40, 30)
    ends = [c["low"] for run in drawn for joint in run["joints"] for c in joint.values()]
    assert sum(map(len, ends)) <= 240_000
    assert len(many[0]["time"]) == len(ends[0])


def test_white_noise_is_called_white(evidence):
    n = 20_000
    noise = np.random.default_rng(1).normal(size=n)
    found = autocorrelation(np.zeros(n, dtype=np.int64), np.arange(n), noise)
    assert found[0] == 1.0
    assert np.mean(np.abs(found[1:51]) < 1.96 / np.sqrt(n)) > 0.85
    counted = histogram(noise)
    assert sum(counted["counts"]) == n
    assert counted["sigma"] == pytest.approx(1.0, abs=0.02)
    assert counted["beyond_three_sigma"] == pytest.approx(0.0027, abs=0.001)
    assert histogram(np.zeros(5))["counts"] == []


def test_autocorrelation_is_that_of_the_validation(identified, data):
    for joint, white in zip(data["residuals"][0]["joints"], identified.held_out.whiteness, strict=True):
        assert joint["autocorrelation"]["values"] == pytest.approx(white.autocorrelation.tolist(), rel=1e-4)
    assert data["residuals"][0]["lag_s"] == pytest.approx(4 / campaigns.RATE)


def test_correlation_has_ones_on_its_diagonal(data):
    C = np.array(data["correlation"]["matrix"])
    np.testing.assert_allclose(np.diag(C), 1.0)
    np.testing.assert_allclose(C, C.T)
    assert np.linalg.eigvalsh(C).min() > -0.01  # rounded to three digits


def test_links_are_those_of_the_consistent_model(identified, data):
    links = data["bodies"]["links"]
    assert [link["link"] for link in links] == list(identified.campaign.robot.mechanism.link_names)
    chi = identified.consistent.chi
    for link in links:
        phi = chi[10 * link["index"] : 10 * link["index"] + 10]
        assert link["mass"] == phi[9]
        assert link["holds"] == check_consistency(phi).holds
        assert min(link["eigenvalues"]) > 0.0
        assert link["center"] == pytest.approx((phi[6:9] / phi[9]).tolist())
        assert len(data["bodies"]["frames"]["ellipsoids"][0]) == 12 * len(links)


def test_a_ball_is_a_ball():
    mass, radius = 3.0, 0.2
    np.testing.assert_allclose(half_axes(mass, np.full(3, 0.4 * mass * radius**2)), radius)
    a, b, c = 0.1, 0.2, 0.4
    moments = mass / 5.0 * np.array([b * b + c * c, a * a + c * c, a * a + b * b])
    np.testing.assert_allclose(half_axes(mass, moments), [a, b, c])


# --- the verdict


def test_the_verdict_is_that_of_the_model(identified, evidence, whole):
    assert identified.verdict.go is True
    assert [use["go"] for use in whole["verdict"]["uses"]][:2] == [True, True]
    assert whole["verdict"]["uses"] == identified.model.verdict["uses"]
    bad = replace(identified, held_out=replace(identified.held_out, model=identified.held_out.baselines["zero"]))
    assert [use.go for use in bad.verdict.uses] == [False] * 4
    assert "gravity only" in " ".join(bad.verdict.uses[0].reasons)
    assert report_data(bad)["verdict"]["headline"] == "Do not use this model"


@pytest.mark.parametrize(("smallest", "go"), [(0.01, None), (-0.01, False)])
def test_without_a_consistent_model_simulation_is_not_recommended(identified, smallest, go):
    without = replace(identified, consistent=None, refusal="the solver stopped", smallest_inertia=smallest)
    use = without.verdict.uses[1]
    assert (use.use, use.go) == (SIMULATION, go)
    assert "the solver stopped" in use.reasons[0]
    page = report_page(report_data(without))
    assert "no physically consistent model: the solver stopped" in pages.Reader(page).text


def test_a_model_on_file_makes_the_same_report(identified, tmp_path):
    folder = shutil.copytree(identified.campaign.folder, tmp_path / "cell")
    campaign = open_campaign(folder)
    fresh = identify(campaign)
    write_model(fresh)
    model, reason = fresh_model(campaign)
    assert reason == ""
    assert report_data(gather_on_file(campaign, model)) == report_data(fresh)
    other = replace(model, standard=replace(model.standard, values=1.01 * model.standard.values))
    assert gather_on_file(campaign, other) is None, "its errors are not those on file"


@pytest.fixture(scope="module")
def on_file(identified, tmp_path_factory):
    folder = shutil.copytree(identified.campaign.folder, tmp_path_factory.mktemp("on_file") / "cell")
    write_model(identify(open_campaign(folder)))
    return folder


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda folder: (folder / "model.json").unlink(), "there is no model.json"),
        (lambda folder: rewritten(folder / "model.json", '"schema": 1', '"schema": 7'), "has schema 7"),
        (lambda folder: rewritten(folder / "model.json", '"method": "wls"', '"method": "ols"'), "asks for wls"),
        (lambda folder: rewritten(folder / "model.json", '"excitor": "', '"excitor": "0'), "another version"),
        (lambda folder: rewritten(folder / "model.json", '"fit": {', '"was": {'), "of an older version"),
        (lambda folder: rewritten(folder / "campaign.toml", "20.0", "19.0"), "campaign.toml changed"),
        (lambda folder: rewritten(folder / "logs/first.csv", "\n", "\n", 1, end="\n"), "logs/first.csv changed"),
    ],
)
def test_a_model_that_is_not_fresh_is_identified_anew(on_file, tmp_path, change, reason):
    folder = shutil.copytree(on_file, tmp_path / "cell")
    change(folder)
    model, told = fresh_model(open_campaign(folder))
    assert model is None
    assert reason in told


def test_a_report_says_why_it_identifies_anew(on_file, tmp_path):
    folder = shutil.copytree(on_file, tmp_path / "cell")
    rewritten(folder / "campaign.toml", "20.0", "19.0")
    done = CliRunner().invoke(app, ["report", str(folder)])
    assert "identified anew because " in done.stderr
    assert "campaign.toml changed" in done.stderr


def rewritten(path, old, new, count=-1, end=""):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, count) + end)


def test_a_reduced_model_without_validation_is_reported_as_such(tmp_path):
    robot = campaigns.true_robot()
    t, motion = campaigns.motion_of(robot, 40.0, 0)
    campaigns.write_log(tmp_path / "logs" / "first.csv", robot, t, motion, 0)
    runs = '[[run]]\nname = "only"\nlog = "logs/first.csv"\n\n[processing]\nlowpass_hz = 20.0\ndecimate = [4]\n'
    settings = "[identify]\nessential_ratio = 15.0\nconsistent = false\n"
    (tmp_path / "campaign.toml").write_text(campaigns.CAMPAIGN.split("[[run]]")[0] + runs + settings)
    reduced = report_data(identify(open_campaign(tmp_path)))
    left = [row["name"] for row in reduced["parameters"] if not row["kept"]]
    assert left
    assert all(row["value"] is None for row in reduced["parameters"] if row["name"] in left)
    assert reduced["verdict"]["go"] is None
    text = pages.Reader(report_page(reduced)).text
    for words in ("left out", "Use this model with care", "the campaign asks for none", "Left out of the model"):
        assert words in text


# --- planned and achieved


def test_the_plan_stands_beside_what_came_of_it(identified, data):
    planned = data["planned"]
    first, payload, second = planned["runs"]
    assert (first["condition_planned"], first["periods_planned"], first["measured"]) == (12.5, 4.0, True)
    W = pages.base_columns(load("rotradi"), identified.samples["first"].motion)
    assert first["condition_obtained"] == pytest.approx(np.linalg.cond(W), rel=0.01)  # of fewer samples
    assert not payload["measured"]
    assert (second["name"], second["planned"]) == ("second", False)
    row = planned["parameters"][0]
    assert (row["name"], row["expected"]) == ("ZZ1R", 2.0)
    assert 2.0 * row["ratio"] == row["obtained"] == identified.intervals.sigma[0]
    assert planned["within"] == planned["compared"] == len(identified.intervals.names)


@pytest.mark.parametrize("design", [{}, {"runs": [3, {}], "forecast": {"parameters": [None, {}]}}, {"forecast": 5}])
def test_a_design_that_says_little_is_no_trouble(identified, design):
    report_page(report_data(identified, design=design))


# --- the page


def test_the_page_is_whole_and_needs_nothing_else(data):
    page = report_page(data)
    read = pages.Reader(page)
    assert len(page) < 1_500_000
    for _, attributes in read.tags:
        assert not {"src", "srcset", "onclick", "onload", "onerror"} & set(attributes)
        assert attributes.get("href", "#").startswith("#")
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", page)
    assert "url(" not in page
    assert "@import" not in page
    policy = next(attributes["content"] for _, attributes in read.tags if "http-equiv" in attributes)
    assert policy.startswith("default-src 'none'")
    targets = {attributes["id"] for _, attributes in read.tags if "id" in attributes}
    assert {attributes["href"][1:] for tag, attributes in read.tags if tag == "a"} <= targets


def hostile(data):
    """Put an attack behind every text of a report, keys of tables by name included."""

    def dirty(value):
        if isinstance(value, str):
            return value + pages.ATTACK
        if isinstance(value, dict):
            named = {"sha256", "settings"}
            return {
                key: {name + pages.ATTACK: dirty(entry) for name, entry in value[key].items()}
                if key in named
                else dirty(value[key])
                for key in value
            }
        return [dirty(entry) for entry in value] if isinstance(value, list) else value

    return dirty(data)


def test_no_text_becomes_markup(data):
    clean, dirty = report_page(data), report_page(hostile(data))
    assert "<script>document" not in dirty
    assert "<img" not in dirty
    assert [tag for tag, _ in pages.Reader(clean).tags] == [tag for tag, _ in pages.Reader(dirty).tags]
    read = pages.Reader(dirty)
    assert read.data["robot"]["joints"][0].endswith(pages.ATTACK)
    assert pages.ATTACK in "".join(read.words)


def test_missing_parts_are_left_out(data):
    pages.Reader(report_page({}))
    data |= {"runs": [{key: run[key] for key in ("name", "role")} for run in data["runs"]]}
    data |= {"split": {}, "bodies": data["bodies"] | {"frames": {}}}
    for key in data:
        pages.Reader(report_page({name: value for name, value in data.items() if name != key}))
    without = pages.Reader(report_page(data | {"alignment": None, "planned": None})).text
    assert "Alignment of the logs" not in without
    assert "Planned and achieved" not in without


def test_both_files_are_written(identified, tmp_path):
    paths = write_report(tmp_path, identified, commands=["excitor report my-cell"])
    assert [path.name for path in paths] == ["report.json", "report.html"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "report.json"]
    data = read_report(tmp_path / "report.json")
    assert data["schema"] == 1
    assert data["provenance"]["commands"] == ["excitor report my-cell"]
    assert set(data["provenance"]["sha256"]) == {"campaign.toml", "logs/first.csv", "logs/second.csv"}
    assert (tmp_path / "report.html").read_text() == report_page(data)


def test_without_a_browser_a_sentence_states_it(tmp_path, monkeypatch):
    monkeypatch.setattr(write.shutil, "which", lambda name: None)
    printed = pdf(tmp_path / "report.html")
    assert printed.path is None
    assert "neither is installed" in printed.sentence


# --- two reports


def test_equal_reports_are_equal(data):
    found = compare(data, data)
    assert found["equal"]
    assert all(row["sigmas"] == 0.0 and not row["changed"] for row in found["parameters"])
    assert found["sentences"] == ["The two reports agree on every parameter."]
    assert "Equal" in pages.Reader(comparison_page(found)).text


def test_a_repeated_campaign_agrees(data, tmp_path):
    again = report_data(settled(tmp_path, 1))
    found = compare(data, again)
    assert not found["equal"]
    assert np.mean([row["changed"] for row in found["parameters"]]) < 0.25
    assert 0.3 < np.median([abs(row["sigmas"]) for row in found["parameters"]]) < 1.5
    assert found["verdict"]["agree"] is True
    assert "agree" in found["verdict"]["headline"]
    bodies = [row for row in found["parameters"] if row["part"] != "friction"]
    rms = math.sqrt(sum(row["sigmas"] ** 2 for row in bodies) / len(bodies))
    assert found["verdict"]["rms_sigmas"]["bodies"] == pytest.approx(rms)
    assert 0.5 < rms < 1.6  # 1 but for chance
    json.dumps(found, allow_nan=False)


def test_drift_of_friction_is_named(data, tmp_path):
    warm = copied(data)
    row = next(row for row in warm["parameters"] if row["name"] == "Fv2")
    shift = 0.2 * row["value"]
    for key in ("value", "low", "high"):
        row[key] += shift
    found = compare(data, warm)
    drift = next(row for row in found["friction"] if row["name"] == "Fv2")
    assert drift["changed"]
    assert drift["relative"] == pytest.approx(0.2)
    assert drift["sigmas"] == pytest.approx(shift / (math.sqrt(2.0) * row["sigma"]))
    assert any("Friction drifted: Fv2 +20 %" in sentence for sentence in found["sentences"])
    assert [row["name"] for row in found["parameters"] if row["changed"]] == ["Fv2"]
    text = pages.Reader(write_comparison(tmp_path, found).read_text()).text
    assert "1 of 21 parameters changed" in text
    assert found["verdict"]["headline"] == "Friction has changed; the bodies agree"
    assert not found["verdict"]["agree"]
    effect = 0.2 * row["contribution"]
    assert drift["effect"] == pytest.approx(effect)
    assert f"difference of friction is that of Fv2: {show(effect, 2)} times" in text


def test_models_without_a_parameter_in_common_are_not_called_equal(data):
    other = copied(data)
    for row in other["parameters"]:
        row["name"] = f"other {row['name']}"
    found = compare(data, other)
    assert found["verdict"]["agree"] is None
    assert "nothing to compare" in found["verdict"]["headline"]
    assert any(sentence.startswith("Only the second model has other ") for sentence in found["sentences"])
    assert "banner care" in comparison_page(found)


def test_bodies_that_differ_are_reported(data):
    heavy = copied(data)
    row = next(row for row in heavy["parameters"] if row["name"] == "ZZ1")
    for key in ("value", "low", "high"):
        row[key] *= 2.0
    found = compare(data, heavy)
    assert found["verdict"]["headline"] == "The two identifications differ in bodies; friction agrees"
    assert found["verdict"]["bodies"] is False
    assert found["verdict"]["friction"] is True


def test_a_virtual_robot_is_distinguished_from_a_real_one(data):
    virtual = copied(data) | {"simulated": [{"run": "first"}]}
    virtual["parameters"][0]["value"] *= 1.0001
    assert "The first is of a virtual robot, the other is not." in compare(virtual, data)["sentences"]


def test_parameters_that_mean_something_else_are_not_compared(data):
    other = copied(data)
    other["parameters"][0]["regrouping"] = "ZZ1"
    other["parameters"][1]["kept"] = False
    found = compare(data, other)
    names = [row["name"] for row in data["parameters"]]
    assert found["different_meaning"] == [names[0]]
    assert found["only_in_first"] == [names[1]]
    assert names[0] not in [row["name"] for row in found["parameters"]]


@pytest.mark.parametrize(("key", "value"), [("name", "another"), ("joints", ["a", "b", "c"])])
def test_reports_of_different_robots_are_refused(data, key, value):
    other = copied(data)
    other["robot"][key] = value
    with pytest.raises(ExcitorError, match="reports of one robot"):
        compare(data, other)


def spoilt(change):
    def spoil(data):
        change(data)
        return data

    return spoil


BAD = {
    "schema": (spoilt(lambda d: d.update(schema=2)), "expected an 'excitor report' of schema 1"),
    "kind": (spoilt(lambda d: d.update(kind="excitor design")), "expected an 'excitor report'"),
    "list": (lambda d: [d], "is no report"),
    "number as text": (spoilt(lambda d: d["parameters"][0].update(value="1.0")), r"parameters\[1\].value"),
    "kept, no value": (spoilt(lambda d: d["parameters"][0].update(value=None)), "has no value"),
    "negative sigma": (spoilt(lambda d: d["parameters"][0].update(sigma=-1.0)), r"parameters\[1\].sigma"),
    "missing": (spoilt(lambda d: d["robot"].pop("joints")), "robot.joints"),
    "twice": (spoilt(lambda d: d["parameters"].append(d["parameters"][0])), "same name"),
    "errors short": (spoilt(lambda d: d["errors"][0]["joints"].pop()), "joints"),
}


@pytest.mark.parametrize(("change", "words"), BAD.values(), ids=BAD)
def test_a_report_of_a_stranger_is_checked(data, tmp_path, change, words):
    path = tmp_path / "report.json"
    path.write_text(json.dumps(change(copied(data))))
    with pytest.raises(ExcitorError, match=words):
        read_report(path)


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, '{"schema": NaN}', "\x00\xff", "1e999"])
def test_what_is_no_json_is_refused(tmp_path, text):
    (tmp_path / "report.json").write_text(text, encoding="latin-1")
    with pytest.raises(ExcitorError, match=r"report\.json: "):
        read_report(tmp_path / "report.json")


def test_a_huge_file_is_not_read(tmp_path):
    with (tmp_path / "report.json").open("wb") as file:
        file.truncate(2**31)
    with pytest.raises(ExcitorError, match="expected at most"):
        read_report(tmp_path / "report.json")
    with pytest.raises(ExcitorError, match="is missing"):
        read_report(tmp_path / "other.json")


def test_names_in_a_comparison_are_escaped(data):
    other = copied(data)
    for report in (data, other):
        report["robot"]["title"] = report["name"] = pages.ATTACK
        for row in report["parameters"]:
            row["name"] += pages.ATTACK
            row["regrouping"] += pages.ATTACK
    page = comparison_page(compare(data, other))
    assert "<script>document" not in page
    assert "<img" not in page
    pages.Reader(page)


def test_a_static_run_is_shown_by_its_poses(evidence):
    """Poses have no time: they are numbered."""
    run = evidence.runs[0]
    poses = np.arange(1.0, len(run.time) + 1.0)
    alone = replace(evidence, runs=(replace(run, samples=replace(run.samples, static=True), time=poses),))
    shown = runs_data(alone)[0]
    assert shown["static"]
    assert shown["duration_s"] is None
    assert split_data(alone)["static"]
    assert motion_frames(alone, [])["time"] == list(range(61))
    assert planned_data(alone, {"runs": [{"name": "first"}]})["runs"][0]["condition_obtained"] is None


# --- what weighs in the verdict


def test_a_condition_is_that_of_scaled_columns_and_of_joints_that_move(identified):
    samples, robot = identified.samples["first"], identified.campaign.robot
    still = replace(samples, motion=posture(samples.motion.q[:1].repeat(len(samples), axis=0)))
    assert shown_campaign.run_condition(robot, samples) == pytest.approx(
        np.linalg.cond(pages.base_columns(robot, samples.motion)), rel=0.01
    )
    assert shown_campaign.run_condition(robot, still) is None


def test_tracking_errors_are_joint_by_joint(evidence, monkeypatch):
    error = np.array([[3.0, 0.0, -1.0], [-4.0, 0.0, 1.0]])
    monkeypatch.setattr(shown_campaign, "tracking_error", lambda run: error if run is evidence.runs[0] else None)
    (row,) = shown_campaign.tracking_rows(evidence)
    assert row["run"] == evidence.runs[0].samples.run
    np.testing.assert_allclose(row["rms"], [np.sqrt(12.5), 0.0, 1.0])
    assert row["peak"] == [4.0, 0.0, 1.0]


@pytest.mark.parametrize(
    ("said", "level"), [("note", "note"), ("doubtful", "doubtful"), (None, "unusable"), ("x", "unusable")]
)
def test_a_finding_of_no_known_level_is_a_grave_one(said, level):
    assert alignment_entry({"level": said, "holds": False})["level"] == level


def test_checks_are_listed_with_their_run(data):
    found = [{"name": f"{run}: x", "run": run, "what": "x", "holds": run == "first"} for run in ("first", "second")]
    shown = shown_campaign.alignment_context(data | {"alignment": [alignment_entry(entry) for entry in found]})
    assert [(run["run"], run["n_checks"], run["good"]) for run in shown["runs"]] == [("first", 1, 1), ("second", 1, 0)]
    assert (shown["n_runs"], [entry["run"] for entry in shown["failed"]]) == (2, ["second"])


def test_harmless_oddities_of_logs_are_remarked(evidence):
    checks = [{"holds": False, "level": level, "sentence": "the clock drifts"} for level in ("note", "doubtful")]
    assert verdict_data(evidence, [], checks)["not_told"].count("Of the logs: the clock drifts.") == 1


def test_a_joint_that_is_hardly_predicted_is_doubted(identified):
    relative = identified.held_out.model.relative.copy()
    relative[1] = 0.7
    held_out = replace(identified.held_out, model=replace(identified.held_out.model, relative=relative))
    doubts = replace(identified, held_out=held_out).verdict.uses[0].reasons
    assert doubts == ("It does not predict most of the torque of shoulder (70 %).",)


# --- in a browser

PROBE = """
const told = {}, all = selector => [...document.querySelectorAll(selector)], canvas = document.getElementById('scene');
const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
told.tones = new Set(new Uint32Array(pixels.buffer)).size;
told.wide = document.documentElement.scrollWidth - innerWidth;
told.panels = all('.run-body:not([hidden]) .panel').length;
const drawn = () => document.querySelector('.run-body:not([hidden]) .curve.k-predicted').getAttribute('d').length;
const whole = drawn();
document.querySelector('[data-zoom="in"]').click();
const first = document.querySelector('.run-body:not([hidden]) .panel svg'), area = first.getBoundingClientRect();
first.dispatchEvent(new PointerEvent('pointermove', { clientX: area.left + 0.7 * area.width }));
told.read = document.querySelector('.run-body:not([hidden]) .panel .now').textContent;
all('details').forEach(details => details.open = true);
const before = canvas.toDataURL(), slider = document.getElementById('scrub');
slider.value = 500;
slider.dispatchEvent(new Event('input'));
told.moved = canvas.toDataURL() !== before;
const column = () => all('table.parameters tbody tr').map(row => Number(row.cells[4].dataset.number));
all('table.parameters thead button')[4].click();
told.sorted = column().every((x, k, xs) => !k || xs[k - 1] <= x);
setTimeout(() => {
  told.zoomed = drawn() / whole;
  told.trios = all('.trio').length;
  all('#tabs button')[0].click();
  told.shown = all('.run-body:not([hidden])').map(part => part.dataset.run);
  document.body.appendChild(document.createElement('pre')).id = 'told';
  document.getElementById('told').textContent = JSON.stringify(told);
}, 300);
"""


@pages.in_browser
@pytest.mark.parametrize("width", [1280, 390])
def test_browser_draws_and_answers(whole, tmp_path, width):
    page = pages.with_script(report_page(whole), PROBE)
    document, said = pages.browse(page, tmp_path, "--dump-dom", f"--window-size={width},1000")
    assert said == []
    told = json.loads(re.search(r'<pre id="told">(.*?)</pre>', document)[1])
    assert told["tones"] > 500  # shaded bodies, not an empty canvas
    assert told["wide"] <= 0  # nothing is cut at the side
    assert told["panels"] == 3
    assert told["zoomed"] == pytest.approx(0.5, abs=0.05)
    assert re.fullmatch(rf"[\d.]+ s({MINUS}?[\d.]+){{3}}", told["read"])
    assert told["moved"]
    assert told["sorted"]
    assert told["shown"] == ["0"]
    assert told["trios"] == 6
    assert pages.FAILED not in document


@pytest.mark.slow
@pages.in_browser
def test_browser_runs_no_text_of_strangers(whole, tmp_path):
    document, said = pages.browse(report_page(hostile(whole)), tmp_path, "--dump-dom")
    assert said == []
    assert "<title>owned" not in document
    assert "<img" not in document
    assert pages.FAILED not in document


@pytest.mark.slow
@pages.in_browser
def test_browser_prints(identified, tmp_path):
    write_report(tmp_path, identified)
    printed = pdf(tmp_path / "report.html")
    assert printed.path == tmp_path / "report.pdf"
    assert printed.path.read_bytes().startswith(b"%PDF")
    assert not list(tmp_path.glob(".report*"))


def test_the_tracking_table_has_a_row_a_joint_and_the_tool_and_a_column_a_controller():
    def found(by, k):
        errors = {"rms": [0.1 * k, 0.2 * k], "peak": [0.3 * k, 0.4 * k]}
        tool = {
            name: 0.5 * k + n for n, name in enumerate(("tool_rms_mm", "tool_peak_mm", "path_rms_mm", "path_peak_mm"))
        }
        return {"feed_forward": by, **errors, **tool}

    tracking = {
        "joints": ["a", "b"], "units": ["rad", "m"], "controllers": [found("none", 4.0), found("identified", 1.0)],
        "ratios": {"to_no_model": {"joints": [0.25, 0.26], "tool": 0.25, "path": 0.27}}, "robot": "arm",
    }  # fmt: skip
    context = shown_campaign.tracking_context({"tracking": tracking})
    assert context["controllers"] == ["none, rms", "none, peak", "identified, rms", "identified, peak"]
    assert context["headings"] == ["identified / no model"]
    assert context["shares"] == ["25 % of that without a model"]
    assert [(row["name"], row["unit"]) for row in context["rows"][:2]] == [("a", "rad"), ("b", "m")]
    assert context["rows"][1]["errors"] == pytest.approx([0.8, 1.6, 0.2, 0.4])
    assert [row["ratios"] for row in context["rows"]] == [[0.25], [0.26], [0.25], [0.27]]
    assert context["rows"][3]["errors"] == pytest.approx([4.0, 5.0, 2.5, 3.5])
    assert context["refused"] == ""
    assert (context["robot"], context["motion"]) == ("arm", None)
    assert shown_campaign.tracking_context({}) is None
    assert shown_campaign.tracking_context({"tracking": {"refused": "no"}}) == {"refused": "no"}
