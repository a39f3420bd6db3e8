"""Evidence on models, random and of whole campaigns, good and bad; and what verbs say that does not agree."""

import json
from dataclasses import fields, replace

import numpy as np
from typer.testing import CliRunner

from excitor.experiments.campaign import open_campaign
from excitor.experiments.cli import app
from excitor.experiments.compare import compare
from excitor.identify.verdict import FEED_FORWARD, Difference, Scores, verdict
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.errors import ExcitorError
from excitor.robots.load import load
from excitor.robots.robot import Motion
from tests.campaigns import CAMPAIGN, NOISE, motion_of, true_robot, write_campaign, write_log

RANK = {False: 0, None: 1, True: 2}
WORSENED = [each.name for each in fields(Scores) if each.name not in ("refusal", "over_prior", "training", "spread")]
HEADLINES = ("The model may be used", "Do not use this model", "Use this model with care", "Nothing learned beyond")
ONE_RUN = CAMPAIGN.split("[[run]]")[0] + (
    '[[run]]\nname = "first"\nlog = "logs/first.csv"\n\n[processing]\nlowpass_hz = 20.0\ndecimate = [4]\n'
)


def uses(scores):
    return {use.use: use for use in verdict(scores).uses}


def random_scores(rng):
    error, prior, noise = np.exp(rng.normal([-2.5, -1.5, -3.0], 0.8))
    half = 0.02 * rng.uniform()
    over = Difference(error - prior, error - prior - half, error - prior + half)
    optional = rng.uniform(size=5) < 0.7
    return Scores(
        training=float(np.exp(rng.normal(-2.8, 0.5))),
        held_out=float(error) if optional[0] else None,
        same_run=bool(rng.uniform() < 0.2),
        joints={"a": float(rng.uniform(0.0, 0.7))},
        gravity=float(np.exp(rng.normal(-0.7, 0.7))),
        prior=float(prior),
        over_prior=over if optional[1] else None,
        noise=float(noise) if optional[2] else None,
        loss=float(rng.uniform(0.0, 0.2)) if optional[3] else None,
        smallest_inertia=float(rng.normal(0.1, 0.1)),
        open_friction=("Fc1",) if rng.uniform() < 0.2 else (),
        doubts=("odd",) if rng.uniform() < 0.2 else (),
        objections=("wrong",) if rng.uniform() < 0.1 else (),
    )


def worsened(scores, rng):
    """Make one piece of the evidence worse, and what follows from it."""
    up = float(1.0 + rng.uniform(0.01, 3.0))
    shifted = scores.over_prior
    name = str(rng.choice(WORSENED))
    if name == "held_out" and scores.held_out is not None:
        more = (up - 1.0) * scores.held_out
        if shifted is not None:
            shifted = Difference(shifted.value + more, shifted.low + more, shifted.high + more)
        return replace(scores, held_out=scores.held_out + more, over_prior=shifted)
    if name == "prior":
        less = scores.prior * (1.0 - 1.0 / up)
        if shifted is not None:
            shifted = Difference(shifted.value + less, shifted.low + less, shifted.high + less)
        return replace(scores, prior=scores.prior - less, over_prior=shifted)
    changes = {
        "held_out": {},
        "same_run": {"same_run": True},
        "in_amperes": {"in_amperes": True},
        "joints": {"joints": {joint: up * x for joint, x in scores.joints.items()}},
        "gravity": {"gravity": scores.gravity / up},
        "noise": {"noise": None if scores.noise is None else scores.noise / up},
        "loss": {"loss": None if scores.loss is None else up * scores.loss},
        "smallest_inertia": {"smallest_inertia": scores.smallest_inertia - up},
        "open_friction": {"open_friction": (*scores.open_friction, "Fv2")},
        "doubts": {"doubts": (*scores.doubts, "odder")},
        "objections": {"objections": (*scores.objections, "more wrong")},
    }
    return replace(scores, **changes[name])


def not_monotone(count):
    """Draw evidence, and make it worse: list what got a better verdict, and the verdicts that occur."""
    rng, wrong, seen = np.random.default_rng(0), [], set()
    for _ in range(count):
        scores = random_scores(rng)
        before, after = uses(scores), uses(worsened(scores, rng))
        for name, use in before.items():
            if RANK[after[name].go] > RANK[use.go] or RANK[use.go] > RANK[before[FEED_FORWARD].go]:
                wrong.append((scores, name))
            seen.add((name, use.go))
    return wrong, seen


def rewrite(path, change):
    head, *rows = path.read_text().splitlines()
    table = np.array([[float(x) for x in row.split(",")] for row in rows])
    change(table)
    np.savetxt(path, table, delimiter=",", header=head, comments="", fmt="%.6f")


def good(folder):
    write_campaign(folder, 20.0)


def true_prior(folder):
    (folder / "logs").mkdir()
    for k, name in enumerate(("first", "second")):
        robot = load("rotradi")
        write_log(folder / "logs" / f"{name}.csv", robot, *motion_of(robot, 20.0, k), k)
    (folder / "campaign.toml").write_text(CAMPAIGN)


def noisy_positions(folder):
    """Positions so noisy that accelerations are noise; the file states no filter worth the name."""
    passed = '[identify]\nallow = ["band"]\n\n[processing]\nlowpass_hz = 90.0'
    write_campaign(folder, 20.0, CAMPAIGN.replace("[processing]\nlowpass_hz = 20.0", passed))
    rng = np.random.default_rng(0)
    for name in ("first", "second"):
        rewrite(folder / "logs" / f"{name}.csv", lambda table: table.__iadd__(
            np.pad(0.1 * rng.normal(size=(len(table), 3)), ((0, 0), (1, 3)))))  # fmt: skip


def another_sign(folder):
    """The validation run's torques have another sign: what was learned does not hold there."""
    write_campaign(folder, 20.0)
    rewrite(folder / "logs" / "second.csv", lambda table: table[:, 4:].__imul__(-1.0))


def another_scale(folder):
    write_campaign(folder, 20.0)
    rewrite(folder / "logs" / "second.csv", lambda table: table[:, 4:].__imul__(1.6))


def single_run(folder):
    (folder / "logs").mkdir()
    write_log(folder / "logs" / "first.csv", true_robot(), *motion_of(true_robot(), 25.0, 0), 0)
    (folder / "campaign.toml").write_text(ONE_RUN)


def same_motion(folder):
    """The run to validate on shows the motion of the other once more."""
    single_run(folder)
    first = '[[run]]\nname = "first"\nlog = "logs/first.csv"\n'
    again = '[[run]]\nname = "again"\nlog = "logs/first.csv"\nrole = "validate"\nfrom_s = 15.0\n'
    (folder / "campaign.toml").write_text(ONE_RUN.replace(first, f"{first}to_s = 15.0\n{again}"))


def reversed_joint(folder):
    """One torque has another sign in the log that is fitted to: refused."""
    write_campaign(folder, 12.0)
    rewrite(folder / "logs" / "first.csv", lambda table: table[:, 5].__imul__(-1.0))


def overridden(folder):
    """The same, passed over by name."""
    reversed_joint(folder)
    names = '["torque-sign", "scale", "shift", "friction", "inertia", "channels", "torque", "sign", "band", "gravity"]'
    path = folder / "campaign.toml"
    path.write_text(path.read_text() + f"\n[identify]\nallow = {names}\n")


def joint_at_rest(folder):
    """A process whose second joint stands still; the other two have little to say."""
    robot, rng = true_robot(), np.random.default_rng(0)
    (folder / "logs").mkdir()
    for k, name in enumerate(("first", "second")):
        t, motion = motion_of(robot, 25.0, k, base_hz=0.2)
        q, dq, ddq = (np.array(x) for x in (motion.q, motion.dq, motion.ddq))
        q[:, 1], dq[:, 1], ddq[:, 1] = 0.4, 0.0, 0.0
        tau = inverse_dynamics(robot, Motion(q, dq, ddq)) + rng.normal(size=q.shape) * NOISE
        q[:, 1] += 2e-5 * rng.normal(size=len(t))
        table = np.column_stack([t, np.degrees(q), tau])
        np.savetxt(folder / "logs" / f"{name}.csv", table, "%.8f", ",", header="t,q1,q2,q3,c1,c2,c3", comments="")
    (folder / "campaign.toml").write_text(CAMPAIGN)


def loud_torques(folder):
    """Torques that are mostly noise, of a robot that is known: the prior predicts better."""
    true_prior(folder)
    walk = NOISE * np.cumsum(np.random.default_rng(0).normal(size=(4000, 3)), axis=0)
    rewrite(folder / "logs" / "first.csv", lambda table: table[:, 4:].__iadd__(walk))


def open_band(folder):
    """Nothing is stated of the processing."""
    write_campaign(folder, 20.0, CAMPAIGN.split("[processing]")[0])


CAMPAIGNS = (
    good, another_sign, true_prior, noisy_positions, single_run, same_motion, another_scale, reversed_joint,
    overridden, joint_at_rest, loud_torques, open_band,
)  # fmt: skip


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def disagreements(folder):
    """List where identify, report, compare, status and export of a campaign disagree; and the model's headline."""
    identified = run("identify", folder)
    if not (folder / "model.json").exists():
        return _refused(folder, identified.exit_code)
    said = json.loads((folder / "model.json").read_text())["verdict"]
    go, words, wrong = said["go"], said["headline"], []

    def hold(what, holds):
        wrong.extend([] if holds else [f"{what} is not that of model.json: {words}"])

    hold("exit code of identify", identified.exit_code == (go is False))
    hold("headline of identify", words in identified.stdout)
    reported = run("report", folder)
    hold("exit code of report", reported.exit_code == 0)
    hold("verdict of report.json", json.loads((folder / "report.json").read_text())["verdict"]["uses"] == said["uses"])
    page = (folder / "report.html").read_text()
    hold("headline of report.html", [one for one in HEADLINES if one in page] == [words[: len("Nothing learned beyond")]
         if words.startswith("Nothing") else words])  # fmt: skip
    stages = json.loads(run("status", folder, "--json").stdout)["stages"]
    reasons = {stage["reason"] for stage in stages if stage["name"] in ("model.json", "report.json")}
    hold("status", reasons == {words})
    try:
        best = compare(open_campaign(folder), ["wls"]).recommendation
        hold("verdict of compare", best.verdict.go is go and best.verdict.headline == words)
        hold("reasons of compare", best.verdict.uses[0].reasons == tuple(said["uses"][0]["reasons"]))
        hold("recommendation of compare", (best.method is None) == (go is False))
    except ExcitorError as error:  # a process has no parameters that all methods fit
        hold("refusal of compare", "in-process" in str(error))
    hold("export", run("export", folder, "--format", "py").exit_code == (go is False))
    if go is False:
        hold("override of export", run("export", folder, "--format", "py", "--allow", "do-not-use").exit_code == 0)
    return wrong, words


def _refused(folder, exit_code):
    """Without a model, every verb refuses, and status knows none."""
    wrong = [] if exit_code == 1 else ["identify wrote no model and did not fail"]
    verbs = {"report": (), "export": ("--format", "py")}
    wrong += [f"{verb} did not fail" for verb, more in verbs.items() if run(verb, folder, *more).exit_code != 1]
    try:
        compare(open_campaign(folder), ["wls"])
        wrong.append("compare did not fail")
    except ExcitorError:
        pass
    stages = json.loads(run("status", folder, "--json").stdout)["stages"]
    wrong += [f"status: {stage}" for stage in stages if stage["name"] == "model.json" and stage.get("done")]
    return wrong, ""
