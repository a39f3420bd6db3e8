"""`excitor compare`: all methods on the same data, judged by what none has seen; a recommendation with its reason."""

import copy
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import compare as bench
from excitor.experiments import compare as comparing
from excitor.experiments.campaign import open_campaign
from excitor.experiments.compare import (
    Bias,
    Context,
    Difference,
    Symptoms,
    apart,
    beliefs,
    compare,
    differences,
    dissents,
    heavy,
    named,
    pair_of,
    recommend,
    trend,
)
from excitor.experiments.identification import UnusableData, identify
from excitor.experiments.report.comparison import compare_data, compare_page
from excitor.experiments.verbs.compare import run_compare
from excitor.identify.methods import METHODS, Answer
from excitor.robots.errors import ExcitorError
from excitor.robots.load import load
from tests import browser as browsers
from tests import campaigns
from tests.pages import Reader

DATA = Path(__file__).parents[3] / "shared" / "data"
QUICK = ("ols", "wls", "irls", "ridge", "rls", "iv", "filtered dynamic", "power")
QUIET = Symptoms(None, (), ())
OTHERS = {"zero": 1.0, "gravity only": 0.5, "prior model": 0.4}


@pytest.fixture(scope="module", autouse=True)
def short_simulations():
    """Simulate a moment of each run, which is as good a test as seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparing, "SPAN_S", 0.3)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return campaigns.write_campaign(tmp_path_factory.mktemp("cell"), 12.0)


@pytest.fixture(scope="module")
def compared(folder):
    """Compare all but those that simulate often, which the recordings' test runs."""
    return compare(open_campaign(folder), QUICK)


@pytest.fixture(scope="module")
def data(compared):
    return compare_data(compared)


@pytest.fixture
def pair(compared):
    """Two methods that answered, to be changed at will."""
    return tuple(next(entry for entry in compared.judged if entry.name == name) for name in ("irls", "wls"))


# --- the numbers


@pytest.mark.slow
def test_the_error_is_that_of_identify(folder, compared):
    """Another way to the same number: `identify` fits and validates wls."""
    identified = identify(open_campaign(folder))
    judged = next(entry for entry in compared.judged if entry.name == "wls")
    unconstrained = identified.model.unconstrained
    assert judged.error == pytest.approx(unconstrained["held_out"], rel=1e-9)
    assert judged.training.relative_total == pytest.approx(unconstrained["training"], rel=1e-9)
    assert compared.bodies["wls"].total == pytest.approx(identified.held_out.model.relative_total, rel=1e-9)
    assert judged.smallest_inertia == pytest.approx(identified.smallest_inertia)
    for name, errors in identified.held_out.baselines.items():
        rel = 0.02 if name == "gravity only" else 1e-9  # gravity is that of the best model, which may be another
        assert compared.baselines[name].relative_total == pytest.approx(errors.relative_total, rel=rel)


def test_every_method_is_there_and_the_recommendation_is_the_best_or_explains(data):
    assert [entry["name"] for entry in data["methods"]] == list(QUICK)
    assert named(()) == list(METHODS)
    answered = {entry["name"]: entry["held_out"]["total"] for entry in data["methods"] if entry["parameters"]}
    assert {"ols", "wls", "irls", "ridge", "rls"} <= set(answered)
    advice = data["recommendation"]
    assert advice["best"] == min(answered, key=answered.get)
    assert advice["is_best"] == (advice["method"] == advice["best"])
    if not advice["is_best"]:
        assert advice["method"] in advice["within_noise"]
        assert f"{advice['best']} leaves a little less" in advice["reasons"][0]
    assert all(entry["refused"] for entry in data["methods"] if not entry["parameters"])


def test_recursions_of_schemes_end_at_their_estimates_with_eigenvalues_that_only_fall(compared, data):
    """θ(t) and the eigenvalues of P are of the five schemes, in the order of their table, over the runs' time."""
    assert [one["scheme"] for one in data["recursions"]] == ["dynamic", "filtered dynamic", "power"]
    for one in data["recursions"]:
        answer = next(entry for entry in compared.answers if entry.method == one["method"])
        values, spectrum = np.array(one["values"]), np.array(one["eigenvalues"])
        assert values.shape == spectrum.shape == (len(one["time"]), len(one["names"]))
        assert np.abs((values[-1] - answer.estimate.values) / answer.estimate.sigma).max() < 0.05
        assert (np.diff(spectrum[:, 0]) <= 1e-5 * spectrum[:-1, 0]).all(), "largest eigenvalues rise"
        assert spectrum[-1, 0] < 1e-3 * spectrum[0, 0]
        np.testing.assert_allclose(np.square(one["sigma"]).sum(axis=1), spectrum.sum(axis=1), rtol=1e-4)
        lasting = sum(len(run) / run.sample_rate_hz for run in compared.prepared.problem.runs)
        assert 0.0 < one["time"][0] < one["time"][-1] <= lasting * (1.0 + 1e-9)
        assert one["time"][-1] > 0.95 * lasting
    page = compare_page(data)
    assert all(f'data-chart="{name}"' in page for name in ("recursion", "eigenvalues"))


def test_agreement_is_that_of_the_parameters(compared):
    judging = compared.prepared.judging
    one, other = (next(e for e in compared.judged if e.name == name) for name in ("ols", "wls"))
    found = pair_of(compared.pairs, "wls", "ols")
    torque = np.linalg.norm(judging.W @ (one.estimate.values - other.estimate.values)) / np.linalg.norm(judging.y)
    assert found.torque == pytest.approx(torque, rel=1e-6)
    expected = []
    for k, name in enumerate(one.estimate.names):
        a, b = one.answer.intervals, other.answer.intervals
        if not a.low[k] <= b.values[k] <= a.high[k] and not b.low[k] <= a.values[k] <= b.high[k]:
            expected.append(name)
    assert list(found.apart) == expected


def test_parameters_outside_each_others_intervals_are_named(pair):
    intervals = pair[1].answer.intervals
    k = intervals.names.index("Fv2")
    step = np.zeros(len(intervals.names))
    step[k] = 3.0 * (intervals.high[k] - intervals.low[k])
    moved = replace(intervals, values=intervals.values + step, low=intervals.low + step, high=intervals.high + step)
    assert apart(intervals, moved) == ("Fv2",)
    wide = replace(moved, low=moved.low - 2 * step)  # one reaches the other's value: no contradiction
    assert apart(intervals, wide) == ()
    assert apart(intervals, None) is None


def test_models_are_simulated_open_loop_and_errors_are_of_this_model(compared, data):
    """A direct drive: the truth's neighbour follows the measured motion for a moment; a wrong one would not."""
    assert data["simulated"]["kind"] == "open loop"
    rows = [row for row in data["simulated"]["rows"] if row["method"] == "wls"]
    assert {row["role"] for row in rows} == {"fitted", "held out"}
    assert all(0.0 < row["error"] < 0.02 for row in rows), "of motion that goes through radians"


def test_consistent_versions_predict_as_well(data):
    for entry in data["methods"]:
        if entry["name"] in ("wls", "irls", "rls"):
            assert entry["consistent"]["total"] == pytest.approx(entry["held_out"]["total"], rel=0.05)
            masses = [
                x for name, x in entry["consistent"]["parameters"].items() if name.startswith("M") and len(name) == 2
            ]
            assert min(masses) > 0.0


def test_a_difference_is_distinguished_from_chance(compared):
    """White residuals: the interval is as wide as drawing anew would show."""
    judging, rng = compared.prepared.judging, np.random.default_rng(1)
    n, size = len(judging), np.linalg.norm(judging.y) / np.sqrt(len(judging))
    base = rng.normal(size=(n, 2)) * 0.1 * size
    alike, worse = base[:, 1], 1.3 * base[:, 1]
    found = differences(judging, [base[:, 0], alike, worse], 0)
    assert found[0] == Difference(0.0, 0.0, 0.0)
    assert found[1].low < 0.0 < found[1].high
    assert not found[2].within_noise
    drawn = [np.diff(np.linalg.norm(rng.normal(size=(n, 2)) * 0.1 * size, axis=0))[0] for _ in range(300)]
    width = 3.92 * np.std(drawn) / np.linalg.norm(judging.y)
    assert found[1].high - found[1].low == pytest.approx(width, rel=0.4)  # of white noise in short blocks


# --- the recommendation


def of(entries, **errors):
    """Give methods other errors, and differences that follow from them."""
    changed = [replace(entry, held_out=replace(entry.held_out, relative_total=errors[entry.name])) for entry in entries]
    best = min(errors.values())
    return changed, lambda noise: {
        name: Difference(error - best, error - best - noise, error - best + noise) for name, error in errors.items()
    }


def test_the_best_is_taken_where_it_is_not_chance(pair):
    judged, compared = of(pair, irls=0.05, wls=0.08)
    advice = recommend(judged, compared(0.01), None, Context(OTHERS))
    assert (advice.method, advice.is_best) == ("irls", True)
    assert "beyond noise" in advice.reasons[0]


def test_the_simpler_is_taken_where_it_is(pair):
    judged, compared = of(pair, irls=0.050, wls=0.052)
    advice = recommend(judged, compared(0.01), None, Context(OTHERS))
    assert (advice.method, advice.best, advice.is_best) == ("wls", "irls", False)
    assert "within the noise" in advice.reasons[0]
    assert "simpler" in advice.reasons[0]
    assert "0.2 points" in advice.reasons[0]


def test_a_model_that_a_robot_could_have_goes_before_a_simple_one(pair):
    irls, wls = pair
    broken = replace(wls, smallest_inertia=-0.5, driving=("Fv1",))
    judged, compared = of((irls, broken), irls=0.052, wls=0.050)
    advice = recommend(judged, compared(0.01), None, Context(OTHERS))
    assert advice.method == "irls"
    assert "not positive definite" in advice.reasons[0]
    assert "friction below 0 (Fv1)" in advice.reasons[0]
    alone = recommend(judged[1:], compared(0.01), None, Context(OTHERS))
    assert alone.method == "wls"
    assert alone.careful
    assert any("not for simulation" in reason for reason in alone.reasons)


def test_bias_decides_between_methods_that_are_as_good(pair):
    irls, wls = pair
    iv = replace(irls, answer=replace(irls.answer, method="iv"))
    judged, compared = of((iv, wls), iv=0.052, wls=0.050)
    biased, surely = Bias(1e-6, 30.0, True), recommend
    assert surely(judged, compared(0.01), biased, Context(OTHERS)).method == "iv"
    assert surely(judged, compared(0.01), Bias(0.4, 1.0), Context(OTHERS)).method == "wls"
    unsure = surely(judged, compared(0.01), Bias(1e-6, 30.0, False), Context(OTHERS))
    assert (unsure.method, unsure.careful) == ("wls", True)
    assert any("suspects wls of bias" in reason and "lowpass_hz" in reason for reason in unsure.reasons)
    far = recommend(judged, compared(0.001), biased, Context(OTHERS))
    assert far.method == "wls"
    assert any("believe iv" in reason for reason in far.reasons)


def test_no_model_is_recommended_that_predicts_nothing(pair):
    judged, compared = of(pair, irls=0.7, wls=0.6)
    advice = recommend(judged, compared(0.01), None, Context(OTHERS))
    assert advice.method is None
    assert "gravity alone" in advice.reasons[0]


def test_what_to_believe_is_reported_with_a_cause(compared, pair):
    irls, wls = pair
    judged, found = of((irls, wls), irls=0.08, wls=0.05)
    names = wls.estimate.names[:9]
    pairs = [replace(pair_of(compared.pairs, "irls", "wls"), apart=names)]
    dissenting = dissents(judged, pairs, "wls")
    signs = Symptoms(0.002, ("elbow",), ("shoulder",))
    said = beliefs(load("rotradi"), judged, judged[1], found=dissenting, compared=found(0.001), signs=signs)
    text = " ".join(said)
    assert "irls contradicts wls in 9 of 21 parameters" in text
    assert "elbow has far more large residuals" in text
    assert "so believe wls" in text
    assert "at shoulder follow the velocity" in text
    assert "hardly contradict" not in text
    none = beliefs(load("rotradi"), judged, judged[1], found=[], compared=found(0.1), signs=QUIET)
    assert "irls predicts far worse" in none[0]
    assert "within each other's intervals" in none[1]


def renamed(entry, name):
    return replace(entry, answer=replace(entry.answer, method=name))


def believed(compared, chosen, other, errors, *, noise=0.0001, bias=None):
    """What is said where a method contradicts the one taken in nine parameters."""
    judged, found = of((chosen, other), **errors)
    apart_in_nine = replace(compared.pairs[0], one=chosen.name, other=other.name, apart=chosen.estimate.names[:9])
    dissenting = dissents(judged, [apart_in_nine], chosen.name)
    told = {"found": dissenting, "compared": found(noise), "signs": replace(QUIET, bias=bias)}
    return " ".join(beliefs(load("rotradi"), judged, judged[0], **told))


def test_a_method_with_a_smaller_error_is_not_called_worse(compared, pair):
    """A third one may be the best, and the one taken as good but for chance; this one is not, and still better."""
    irls, wls = pair
    said = believed(compared, wls, irls, {"wls": 0.0305, "irls": 0.0304})
    assert "worse (" not in said
    assert "predict equally well" in said
    assert "so believe wls" in believed(compared, wls, irls, {"wls": 0.0305, "irls": 0.0308})


def test_the_cause_is_that_of_the_two_not_of_one(compared, pair):
    irls, wls = pair
    iv, ols = renamed(wls, "iv"), renamed(wls, "ols")
    assert "assume exact measured motion" in believed(compared, iv, irls, {"iv": 0.05, "irls": 0.06})
    assert "discards good data" not in believed(compared, iv, irls, {"iv": 0.05, "irls": 0.06})
    said = believed(compared, ols, wls, {"ols": 0.05, "wls": 0.06})
    assert "ols does without weights" in said
    assert "counts large torques most" in said
    assert "discards good data" in believed(compared, wls, irls, {"wls": 0.05, "irls": 0.06})


def test_noisy_motion_does_not_judge_where_the_test_suspects_bias(compared, pair):
    irls, wls = pair
    smooth = renamed(irls, "filtered dynamic")
    errors, unsure = {"wls": 0.060, "filtered dynamic": 0.063}, Bias(1e-9, 30.0, False)
    said = believed(compared, wls, smooth, errors, bias=unsure)
    assert "does not settle it" in said
    assert "so believe wls" not in said
    assert "so believe wls" in believed(compared, wls, smooth, errors, bias=Bias(0.4, 1.0, False))
    assert "so believe wls" in believed(compared, wls, smooth, errors | {"filtered dynamic": 0.09}, bias=unsure)


def test_a_delay_and_poor_models_ask_for_care(pair):
    judged, compared = of(pair, irls=0.080, wls=0.05)
    assert not recommend(judged, compared(0.001), None, Context(OTHERS, late=1e-4)).careful
    advice = recommend(judged, compared(0.001), None, Context(OTHERS, late=0.02))
    assert advice.careful
    assert any("moved by 20 ms back in time" in reason for reason in advice.reasons)
    judged, compared = of(pair, irls=0.8, wls=0.35)
    advice = recommend(judged, compared(0.001), None, Context(OTHERS))
    assert advice.careful
    assert any("the best of poor models" in reason for reason in advice.reasons)


def test_runs_that_judge_otherwise_than_those_fitted_are_suspected(pair):
    judged, compared = of(pair, irls=0.9, wls=0.7)
    advice = recommend(judged, compared(0.01), None, Context(OTHERS))
    assert pair[1].training.relative_total < 0.3
    assert "check what differs in the held-out runs" in advice.reasons[0]


def test_a_difference_that_nobody_sees_is_none(pair):
    judged, compared = of(pair, irls=2e-6, wls=2.1e-6)
    advice = recommend(judged, compared(1e-8), None, Context(OTHERS))
    assert advice.method == "wls"
    assert "negligible" in advice.reasons[0]


def test_one_method_alone_is_not_said_to_agree(compared, pair):
    told = {"found": [], "compared": {}, "signs": QUIET}
    assert not beliefs(load("rotradi"), pair[:1], pair[0], **told)


def test_ols_is_reported_to_give_up_weak_joints(pair):
    wls = pair[1]
    ols = renamed(wls, "ols")
    held = replace(wls.held_out, relative=np.array([0.05, 0.05, 0.047]))
    weighted = replace(wls, held_out=replace(held, relative=np.array([0.05, 0.052, 0.03])))
    judged, compared = of((replace(ols, held_out=held), weighted), ols=0.050, wls=0.051)
    names = ("base", "shoulder", "elbow")
    advice = recommend(judged, compared(0.0001), None, Context(OTHERS, joints=names))
    assert (advice.method, advice.careful) == ("ols", True)
    assert any("wls leaves less at elbow 3.00 % (ols 4.70 %)" in reason for reason in advice.reasons)
    judged, compared = of((replace(ols, held_out=held), replace(weighted, held_out=held)), ols=0.050, wls=0.051)
    assert not recommend(judged, compared(0.0001), None, Context(OTHERS, joints=names)).careful


def test_symptoms_are_seen_and_noise_is_none():
    rng = np.random.default_rng(0)
    speed, noise = rng.uniform(-1.0, 1.0, 600), rng.normal(size=600)
    assert trend(speed, noise, 600.0) < 0.15
    assert trend(speed, noise + 2.5 * np.sign(speed) * np.exp(-np.abs(speed) / 0.2), 600.0) > 0.3
    assert not heavy(noise)
    assert heavy(np.where(rng.uniform(size=600) < 0.03, 8.0, 1.0) * noise)


# --- campaigns


def test_without_a_validation_run_a_third_is_kept_back_and_that_is_reported(tmp_path):
    campaigns.write_campaign(tmp_path, 12.0, campaigns.CAMPAIGN.replace('role = "validate"\n', ""))
    result = compare(open_campaign(tmp_path), ["wls", "ols"])
    known, unseen = result.prepared.examined.training, result.prepared.examined.unseen
    assert [run.run for run in unseen] == ["first (last third)", "second (last third)"]
    for a, b in zip(known, unseen, strict=True):
        assert len(a) + len(b) == pytest.approx(12.0 * campaigns.RATE - 100 - 20, abs=2)  # less both ends and the gap
        assert len(b) == pytest.approx(len(a) / 2, rel=0.05)
    assert not set(known[0].tau[:, 0]) & set(unseen[0].tau[:, 0])
    data = compare_data(result)
    assert "needs a run of its own" in data["runs"]["substitute"]
    assert data["recommendation"]["headline"].endswith("for now")
    assert "last third" in compare_page(data)


def test_data_that_would_mislead_are_refused_as_identify_does(tmp_path):
    campaigns.write_campaign(tmp_path, 12.0)
    path = tmp_path / "logs" / "first.csv"
    rows = [line.split(",") for line in path.read_text().splitlines()]
    for row in rows[1:]:
        row[5] = str(-float(row[5]))
    path.write_text("\n".join(",".join(row) for row in rows))
    said = []
    for run in (identify, lambda campaign: compare(campaign, ["ols"])):
        with pytest.raises(UnusableData, match="sign") as error:
            run(open_campaign(tmp_path))
        said.append(str(error.value))
    assert said[0] == said[1]


def test_a_run_without_torque_judges_nothing(tmp_path):
    campaigns.write_campaign(tmp_path, 12.0)
    path = tmp_path / "logs" / "second.csv"
    rows = [line.split(",") for line in path.read_text().splitlines()]
    columns = [k for k, name in enumerate(rows[0]) if k > 3]
    for row in rows[1:]:
        for k in columns:
            row[k] = "0.0"
    path.write_text("\n".join(",".join(row) for row in rows))
    with pytest.raises(ExcitorError, match="'second' cannot judge a model"):
        compare(open_campaign(tmp_path), ["wls"])


def test_wrong_methods_and_campaigns_are_sentences(tmp_path, folder):
    with pytest.raises(ExcitorError, match="'bayes' is not a method; expected some of ols, wls"):
        compare(open_campaign(folder), ["wls", "bayes"])
    assert named(["wls", "ols", "wls"]) == ["wls", "ols"]
    text = (folder / "campaign.toml").read_text()
    logs = tmp_path / "logs"
    logs.symlink_to(folder / "logs")
    payload = 'task = "payload"\n[payload]\nmass_kg = 1.0\n'
    (tmp_path / "campaign.toml").write_text(payload + text)
    with pytest.raises(ExcitorError):
        compare(open_campaign(tmp_path))


def test_a_method_that_refuses_says_why_and_the_others_go_on(folder, monkeypatch):
    monkeypatch.setattr(
        comparing,
        "answer",
        lambda name, problem, ask=comparing.answer: (
            Answer(name, None, None, refused="it is <b>Tuesday</b>") if name == "ols" else ask(name, problem)
        ),
    )
    data = compare_data(compare(open_campaign(folder), ["ols", "wls"]))
    first, second = data["methods"]
    assert first["refused"] == "it is <b>Tuesday</b>"
    assert first["parameters"] == []
    assert second["parameters"]
    assert data["recommendation"]["method"] == "wls"
    assert "refused: it is &lt;b&gt;Tuesday&lt;/b&gt;" in compare_page(data)
    monkeypatch.setattr(comparing, "answer", lambda name, problem: Answer(name, None, None, refused="no"))
    with pytest.raises(ExcitorError, match=r"no method gave an answer \(ols: no; wls: no\)"):
        compare(open_campaign(folder), ["ols", "wls"])


def test_a_slow_method_is_left_out_unless_it_is_requested(folder, monkeypatch):
    monkeypatch.setattr(comparing, "seconds_of", lambda method, problem: 1e3 if method == "didim" else 0.0)
    monkeypatch.setattr(comparing, "answer", lambda name, problem: Answer(name, None, None, refused="asked"))
    prepared = comparing.prepare(open_campaign(folder))
    assert "--method didim" in comparing.answered("didim", prepared, requested=False).refused
    assert comparing.answered("didim", prepared, requested=True).refused == "asked"


def test_the_command_writes_a_page_and_the_numbers(tmp_path, capsys):
    campaigns.write_campaign(tmp_path, 12.0)
    run_compare(tmp_path, True, ["ols", "wls"])
    out = capsys.readouterr()
    data = json.loads((tmp_path / "compare.json").read_text())
    assert json.loads(out.out) == data
    assert "wls: " in out.err
    assert data["schema"] == 1
    assert set(data["provenance"]["sha256"]) == {"campaign.toml", "logs/first.csv", "logs/second.csv"}
    page = Reader((tmp_path / "compare.html").read_text())
    assert data["recommendation"]["headline"] in page.text
    for entry in data["methods"]:
        assert f"{100 * entry['held_out']['total']:.2f} %" in page.text
        for row in entry["parameters"]:
            assert row["low"] < row["value"] < row["high"]
    run_compare(tmp_path, False, ["wls"])
    shown = capsys.readouterr().out
    assert "Take the model of wls" in shown
    assert "compare.html" in shown


# --- the page


def dirty(data):
    """Put the attack behind every text, names included."""
    changed = browsers.dirty(copy.deepcopy(data))
    changed["recommendation"]["method"] = changed["recommendation"]["method"]
    return changed


def test_nothing_to_believe_is_no_empty_box(data):
    assert "Do the methods agree" in compare_page(data)
    assert "Do the methods agree" not in compare_page(data | {"beliefs": []})


def test_hostile_names_are_words(data):
    page = compare_page(dirty(data))
    assert "<img" not in page
    assert "<svg onload" not in page
    assert browsers.TURN not in page
    assert page.count("<script") == compare_page(data).count("<script")
    assert "&#34;&gt;&lt;img src=x onerror=alert(1)&gt;" in page


@browsers.in_browser
@pytest.mark.slow
def test_the_page_is_quiet_alone_and_fits(data, tmp_path):
    browser = browsers.Browser(tmp_path / "profile")
    try:
        for name, text in (("clean", compare_page(data)), ("hostile", compare_page(dirty(data)))):
            path = tmp_path / f"{name}.html"
            path.write_text(text, encoding="utf-8")
            for width in (browsers.DESK, browsers.PHONE):
                told = browsers.visit(browser, path, width)
                browsers.check(told, path, width)
                assert (told["images"], told["handlers"]) == (0, 0)
                assert "Parameters by method" in told["text"]
    finally:
        browser.close()


# --- real robots


def test_the_bench_says_what_it_skips(tmp_path):
    with pytest.raises(ExcitorError, match="holds none of the folders tx40, qrc350"):
        bench.run(data=tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(not (DATA / "tx40").is_dir(), reason=f"the recordings of real robots are not at {DATA}")
def test_real_recordings_are_compared_within_a_minute():
    report = bench.run(data=DATA)
    figures = {figure.name: figure for figure in report.figures}
    for name in bench.RECORDINGS:
        assert figures[f"compare.{name}.cpu_s"].holds
        told = report.context[name]
        errors = {key: x for key, x in told["held out, percent"].items() if isinstance(x, float)}
        assert len(errors) >= 10
        assert errors[told["best"]] == min(errors.values())
        assert told["recommended"] == told["best"] or "within the noise" in told["why"][0]
    tx40 = report.context["tx40"]["held out, percent"]["wls"]
    assert tx40 == pytest.approx(6.7, abs=0.1)  # 7.4 with friction as stated: the chosen form is better
