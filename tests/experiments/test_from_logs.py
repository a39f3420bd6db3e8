"""`excitor init --from-logs`: logs as strangers write them become a campaign that is identified as it stands."""

import json
import tomllib
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat
from typer.testing import CliRunner

from excitor.experiments.campaign import open_campaign
from excitor.experiments.cli import app
from excitor.experiments.from_logs import begin_from_logs
from excitor.experiments.identification import identify
from excitor.experiments.status import advice, status
from excitor.robots.errors import ExcitorError
from tests.campaigns import log_of, motion_of, true_robot

XMATE = Path(__file__).parents[3] / "shared" / "data" / "xmate3"
TX40 = Path(__file__).parents[3] / "shared" / "data" / "tx40"
XMATE_TOML = 'name = "seven"\n' + "".join(
    f'[[joint]]\nname = "j{k}"\nmdh = {{ alpha_deg = {alpha}, d = 0, theta_deg = 0, r = {r} }}\n'
    for k, (alpha, r) in enumerate(
        zip((0, -90, 90, -90, 90, -90, 90), (0.3415, 0, 0.394, 0, 0.366, 0, 0.2503), strict=True), start=1
    )
)


@pytest.fixture(scope="module")
def signals():
    """Times, positions, velocities and torques of a three-joint robot; torques have noise."""
    t, motion = motion_of(true_robot(), 20.0, 0)
    text = log_of(20.0, 0, 0).decode().splitlines()[1:]
    return t, motion.q, motion.dq, np.array([line.split(",")[4:] for line in text], dtype=float)


def begin(folder, tables, robot="rotradi", **options):
    """Write tables (header, columns) as files, and begin a campaign of them."""
    folder.mkdir(exist_ok=True)
    for name, (header, columns) in tables.items():
        separator = ";" if ";" in header else ","
        np.savetxt(folder / name, np.column_stack(columns), delimiter=separator, header=header, comments="", fmt="%.9g")
        if not header:
            (folder / name).write_text((folder / name).read_text().lstrip())
    return begin_from_logs(folder / "cell", [folder / name for name in tables], robot, **options)


def signal(path, kind):
    log = tomllib.loads(path.read_text())["log"]
    return next(entry for entry in log["signals"] if entry["kind"] == kind)


HEADINGS = {
    "plain": ("t,q1,q2,q3,tau1,tau2,tau3", 1.0, 1.0),
    "vendor": (
        "Timestamp [ms];actualPos_1;actualPos_2;actualPos_3;drehmoment1;drehmoment2;drehmoment3",
        1e3,
        180 / np.pi,
    ),
    "misleading": ("time_s,angle_rad_1,angle_rad_2,angle_rad_3,effort_1,effort_2,effort_3", 1e6, np.degrees(1.0)),
    "named joints": ("stamp,base_q,shoulder_q,elbow_q,base_trq,shoulder_trq,elbow_trq", 1e9, 1.0),
    "other words": ("clock,q1,q2,q3,c1,c2,c3", 1.0, 1.0),
    "none": ("", 1.0, np.degrees(1.0)),
}


@pytest.mark.parametrize("case", HEADINGS)
def test_units_and_columns_are_judged(case, signals, tmp_path):
    header, times, angle = HEADINGS[case]
    t, q, dq, tau = signals
    columns = [times * t, angle * q, tau] if header else [times * t, angle * q, angle * dq, tau]
    path, found = begin(tmp_path, {"run.csv": (header, columns)})
    log = tomllib.loads(path.read_text())["log"]
    assert log["time_unit"] == {1.0: "s", 1e3: "ms", 1e6: "us", 1e9: "ns"}[times]
    assert signal(path, "position")["unit"] == ("rad" if angle == 1.0 else "deg")
    assert (signal(path, "torque")["unit"], signal(path, "torque")["side"]) == ("N m", "joint")
    assert not found.unknown
    assert any("called rad, but only deg is plausible" in line for line in found.known) == (case == "misleading")
    assert advice(status(path.parent)) == f"next: excitor identify {path.parent}"


def test_columns_sorted_by_joints_need_no_headings(signals, tmp_path):
    t, q, _, tau = signals
    pairs = [column for j in range(3) for column in (q[:, j], tau[:, j])]
    path, found = begin(tmp_path, {"run.csv": ("", [t, *pairs])})
    assert signal(path, "position")["columns"] == [2, 4, 6]
    assert signal(path, "torque")["columns"] == [3, 5, 7]
    assert not found.unknown


def test_torques_in_percent_are_not_taken_for_newton_metres(signals, tmp_path):
    t, q, _, tau = signals
    path, found = begin(tmp_path, {"run.csv": ("t,q1,q2,q3,torque1 [%],torque2 [%],torque3 [%]", [t, q, tau])})
    assert "scale = [rated torque / 100, ...]" in found.unknown[0]
    with pytest.raises(ExcitorError, match="a share of rated values"):
        identify(open_campaign(path.parent))


def test_stamps_that_tell_nothing_apart_are_named(signals, tmp_path):
    t, q, _, tau = signals
    single = np.float32(1.7e9 + t).astype(float)
    _, found = begin(tmp_path, {"run.csv": ("t,q1,q2,q3,tau1,tau2,tau3", [single, q, tau])})
    assert any("t is called a time, but has 1 values in 4000 rows" in line for line in found.known)
    assert "log.sample_rate_hz" in found.unknown[0]


def test_coarse_stamps_keep_all_rows(signals, tmp_path):
    t, q, _, tau = signals
    header = "t,q1,q2,q3,tau1,tau2,tau3"
    _, found = begin(tmp_path, {"run.csv": (header, [np.floor(t * 40.0 + 1e-9) / 40.0, q, tau])})
    assert found.rate == pytest.approx(200.0, rel=0.01)
    assert any("many rows share a stamp" in line for line in found.known)


def test_logs_of_one_layout_get_one_unit(signals, tmp_path):
    """The second file has what moves too little to tell rad from degrees."""
    t, q, _, tau = signals
    header = "t,q1,q2,q3,tau1,tau2,tau3"
    tables = {"a.csv": (header, [t, np.degrees(q), tau]), "b.csv": (header, [t, 0.01 * np.degrees(q), tau])}
    path, _ = begin(tmp_path, tables)
    assert all("columns" not in run for run in tomllib.loads(path.read_text())["run"])


def test_quantities_in_files_of_their_own_are_one_motion(signals, tmp_path):
    """No header, no time: the velocities show the rate."""
    _, q, dq, tau = signals
    tables = {"my_pos.txt": ("", [np.degrees(q)]), "my_vel.txt": ("", [np.degrees(dq)]), "my_torque.txt": ("", [tau])}
    path, found = begin(tmp_path, tables)
    assert tomllib.loads(path.read_text())["log"]["sample_rate_hz"] == 200.0
    assert signal(path, "velocity")["unit"] == "deg/s"
    assert "are of one motion" in found.known[0]
    tables["my_vel.txt"] = ("", [dq[:-5]])
    with pytest.raises(ExcitorError, match=r"no one motion \(my_pos.txt 4000 rows, my_vel.txt 3995 rows"):
        begin(tmp_path / "other", tables)
    del tables["my_vel.txt"]
    path, found = begin(tmp_path / "third", tables)
    assert found.unknown == [
        "log.sample_rate_hz: no column is a usable time, and no velocities show the rate: state it"
    ]
    with pytest.raises(ExcitorError, match="log.sample_rate_hz"):
        open_campaign(path.parent)


def test_swapped_headings_are_found(signals, tmp_path):
    t, q, dq, tau = signals
    path, found = begin(tmp_path, {"run.csv": ("t,q1,q2,q3,dq1,dq2,dq3,tau1,tau2,tau3", [t, dq, q, tau])})
    assert signal(path, "position")["columns"] == ["dq1", "dq2", "dq3"]
    assert any("they are swapped" in line for line in found.known)


def test_commanded_and_external_columns_are_left_out(signals, tmp_path):
    t, q, dq, tau = signals
    names = [f"{kind}_{k}" for kind in ("target_q", "q", "qd", "tau_ext", "tau") for k in (1, 2, 3)]
    columns = [t, q + 0.01, q, dq, 0 * tau, tau, np.ones(len(t))]
    path, _ = begin(tmp_path, {"run.csv": (",".join(["t", *names, "tcp_speed"]), columns)})
    assert [signal(path, kind)["columns"][0] for kind in ("position", "velocity", "torque")] == ["q_1", "qd_1", "tau_1"]


@pytest.mark.slow
def test_other_formats_and_several_runs(signals, tmp_path):
    """The last of several motions judges; files with other columns keep a map of their own."""
    t, q, _, tau = signals
    savemat(tmp_path / "one.mat", {"time": t, "q": q, "tau": tau})
    with (tmp_path / "two.npz").open("wb") as file:
        np.savez(file, t=t, angles=np.degrees(q), torque=tau)
    path, found = begin_from_logs(tmp_path / "cell", [tmp_path / "one.mat", tmp_path / "two.npz"], "rotradi")
    one, two = tomllib.loads(path.read_text())["run"]
    assert (one.get("columns"), two["columns"]["signals"][0]["unit"], two["role"]) == (None, "deg", "validate")
    result = CliRunner().invoke(app, ["identify", str(path.parent), "--json"])
    assert json.loads(result.stdout)["held_out"] is None  # the same motion again is not unseen
    assert not found.unknown


@pytest.mark.parametrize(
    ("columns", "header", "said"),
    [
        (
            (0, 1, 2, 4, 5, 6),
            "t,q1,q2,tau1,tau2,tau3",
            "2 columns of position .*rotradi has 3 joints: a joint is missing",
        ),
        ((0, 1, 2, 3), "t,q1,q2,q3", "shows no torques or currents, only position"),
        ((0, 4, 5, 6), "t,tau1,tau2,tau3", "shows no positions, only torque"),
        ((0, 1, 2, 3, 4), "", "columns of numbers without headings"),
    ],
    ids=["missing joint", "positions alone", "torques alone", "no header"],
)
def test_what_cannot_be_is_refused_and_leaves_nothing(columns, header, said, signals, tmp_path):
    t, q, _, tau = signals
    table = np.column_stack([t, q, tau])[:, [*columns]]
    with pytest.raises(ExcitorError, match=said):
        begin(tmp_path, {"run.csv": (header, [table])})
    assert not (tmp_path / "cell" / "campaign.toml").exists()


@pytest.mark.parametrize(
    ("row", "said"),
    [(("nan",), "q1 is nan, which nothing measures; cut it"), ((), "has 2 samples, expected 100 at least")],
)
def test_damaged_logs_are_sentences_with_their_row(row, said, signals, tmp_path):
    t, q, _, tau = signals
    table = np.column_stack([t, q, tau])[: 300 if row else 2]
    table[1:2, 1] = float(*row) if row else 0.0
    with pytest.raises(ExcitorError, match=said):
        begin(tmp_path, {"run.csv": ("t,q1,q2,q3,tau1,tau2,tau3", [table])})
    assert not (tmp_path / "cell" / "campaign.toml").exists()


def test_logs_of_different_robots_are_refused(signals, tmp_path):
    t, q, _, tau = signals
    tables = {
        "a.csv": ("t,q1,q2,q3,tau1,tau2,tau3", [t, q, tau]),
        "b.csv": ("t,q1,q2,tau1,tau2", [t, q[:, :2], tau[:, :2]]),
    }
    with pytest.raises(ExcitorError, match=r"a.csv has 3, b.csv has 2; begin a campaign for each robot"):
        begin(tmp_path, tables, None)
    path, found = begin(tmp_path / "one", {"a.csv": tables["a.csv"]}, None)
    assert found.unknown[0].startswith("robot: ")
    with pytest.raises(ExcitorError, match="robot: 'ROBOT' is neither in the catalogue"):
        open_campaign(path.parent)


def test_a_load_is_found_from_logs_alone(tmp_path, signals):
    """No guess of the load, no schedule; only what init names as unknown is completed."""
    t, q, _, tau = signals
    bare = {name: ("t,q1,q2,q3,tau1,tau2,tau3", [t, q, tau]) for name in ("bare.csv",)}
    loaded = ("t,q1,q2,q3,tau1,tau2,tau3", [t, q, 1.2 * tau])
    path, found = begin(tmp_path, {**bare, "loaded.csv": loaded}, task="payload")
    assert any("loaded = true or false" in line for line in found.unknown)
    path.write_text(path.read_text().replace("[[run]]", "[[run]]\nloaded = false", 1) + "loaded = true\n")
    assert open_campaign(path.parent).content.payload is None
    assert advice(status(path.parent)) == f"next: excitor identify {path.parent}"


def test_the_command_prints_what_it_found(signals, tmp_path):
    t, q, _, tau = signals
    for name in ("a.csv", "b.csv"):
        np.savetxt(
            tmp_path / name,
            np.column_stack([t, q, tau]),
            delimiter=",",
            header="t,q1,q2,q3,tau1,tau2,tau3",
            comments="",
        )
    asked = [
        "init",
        tmp_path / "cell",
        "--robot",
        "rotradi",
        "--json",
        "--from-logs",
        tmp_path / "a.csv",
        tmp_path / "b.csv",
    ]
    done = CliRunner().invoke(app, [str(x) for x in asked])
    assert done.exit_code == 0, done.output
    assert set(json.loads(done.stdout)) == {"campaign", "found", "unknown"}
    again = CliRunner().invoke(app, [str(x) for x in asked if x != "--json"])
    assert again.exit_code == 1
    assert "exists already" in str(again.exception)


@pytest.mark.slow
def test_a_public_recording_becomes_a_model(tmp_path):
    if not XMATE.is_dir():
        pytest.skip(f"{XMATE} is not here; it is a public recording that is not part of this repository")
    (tmp_path / "seven.toml").write_text(XMATE_TOML + '[friction]\nterms = ["viscous", "coulomb", "offset"]\n')
    path, found = begin_from_logs(tmp_path / "cell", sorted(XMATE.glob("*.txt")), str(tmp_path / "seven.toml"))
    assert len(found.unknown) == 1, "unit and side of the torques, for want of known masses"
    assert identify(open_campaign(path.parent)).same_run.model.relative_total < 0.05
    assert CliRunner().invoke(app, ["report", str(path.parent)]).exit_code == 0


def test_gears_show_in_the_weight(tmp_path):
    """Positions of motors in rad, currents in A, no clock: the robot's own gears and weight explain them."""
    if not TX40.is_dir():
        pytest.skip(f"{TX40} is not here; it is a public recording that is not part of this repository")
    path, _ = begin_from_logs(tmp_path / "cell", sorted(TX40.glob("*.csv")), "tx40")
    assert (signal(path, "position")["unit"], signal(path, "position")["side"]) == ("rad", "motor")
    assert signal(path, "current")["unit"] == "A"
    assert len(signal(path, "current")["columns"]) == 6
