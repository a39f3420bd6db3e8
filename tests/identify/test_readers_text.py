"""Formats in text, written by little writers of the tests' own: headings, layouts, time bases, translated names."""

import numpy as np
import pytest

from excitor.identify.logs.declared import ColumnMap
from excitor.identify.logs.formats import log_files, read_raw, sniff
from excitor.identify.logs.read import read_log
from excitor.robots.errors import InvalidLog

N = 200
EMPTY = ColumnMap.model_validate({})


def signals(rng, n=N, joints=6, rate=500.0):
    t = np.arange(n) / rate
    q = np.sin(2 * np.pi * np.outer(t, rng.uniform(0.3, 2.0, joints)) + rng.uniform(0, 6, joints))
    return t, q, rng.normal(size=(n, joints))


def write(path, headings, columns, separator=",", form="{:.9g}"):
    lines = [separator.join(headings)] if headings else []
    lines += [
        separator.join(x if isinstance(x, str) else form.format(x) for x in row) for row in zip(*columns, strict=True)
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def rtde(folder, rng, separator=",", headings=True, columns=31):
    t, q, current = signals(rng)
    model = rng.normal(size=q.shape)
    names = ["timestamp"] + [
        f"{name}_{k}"
        for name in ("actual_q", "actual_qd", "actual_current", "target_current", "target_moment")
        for k in range(6)
    ]
    table = np.column_stack([100.0 + t, q, np.gradient(q, t, axis=0), current, current + 0.1, model])[:, :columns]
    write(folder / "log.csv", names[:columns] if headings else [], table.T, separator, "{:.12g}")
    return t, q, current


@pytest.mark.parametrize("separator", [",", " "])
@pytest.mark.parametrize(("headings", "columns"), [(True, 31), (False, 31), (False, 19)])
def test_rtde_with_and_without_headings(tmp_path, rng, separator, headings, columns):
    t, q, current = rtde(tmp_path, rng, separator, headings, columns)
    path = tmp_path / "log.csv"
    assert sniff(path)[0] == "ur_rtde"
    recording = read_raw(path)
    channel = recording.channel("actual_current_3")
    np.testing.assert_allclose(channel.values, current[:, 3], rtol=1e-9)
    np.testing.assert_allclose(channel.t, 100.0 + t)
    assert (channel.kind, channel.role, channel.side, channel.unit, channel.joint) == (
        "current",
        "measured",
        "motor",
        "A",
        3,
    )
    log = read_log(path, EMPTY)
    assert log.sample_rate_hz == pytest.approx(500.0)
    np.testing.assert_allclose(log.signal("position").values, q, atol=1e-9)
    np.testing.assert_allclose(log.signal("current").values, current, atol=1e-9)
    assert [(s.kind, s.side) for s in log.signals] == [("position", "joint"), ("current", "motor")]


def test_a_models_torque_is_refused_by_name(tmp_path, rng):
    rtde(tmp_path, rng)
    entry = {"kind": "torque", "side": "joint", "unit": "N m", "columns": ["target_moment"]}
    with pytest.raises(InvalidLog, match="target_moment_0 is what the controller's own model computes"):
        read_log(tmp_path / "log.csv", ColumnMap.model_validate({"signals": [entry]}))
    entry = {"kind": "current", "side": "motor", "unit": "A", "columns": ["target_current"]}
    with pytest.raises(InvalidLog, match="target_current_0 is what was commanded, not a measured current"):
        read_log(tmp_path / "log.csv", ColumnMap.model_validate({"signals": [entry]}))


def test_nothing_but_a_models_torque(tmp_path, rng):
    t, q, tau = signals(rng)
    names = ["timestamp", *(f"{name}_{k}" for name in ("actual_q", "target_moment") for k in range(6))]
    write(tmp_path / "log.csv", names, np.column_stack([t, q, tau]).T)
    with pytest.raises(InvalidLog, match="has no measured torque or current: target_moment come from a model"):
        read_log(tmp_path / "log.csv", EMPTY)


def test_a_column_map_still_reads_any_table(tmp_path, rng):
    """Whoever declares all columns and the time is read as before, whatever the headings look like."""
    _, q, _ = rtde(tmp_path, rng)
    entry = {"kind": "position", "side": "joint", "unit": "deg", "columns": [f"actual_q_{k}" for k in range(6)]}
    log = read_log(tmp_path / "log.csv", ColumnMap.model_validate({"signals": [entry], "time": "timestamp"}))
    np.testing.assert_allclose(log.signal("position").values, np.radians(q), atol=1e-9)
    assert log.raw is None


def test_franka_states(tmp_path, rng):
    t, q, tau = signals(rng, joints=7, rate=1000.0)
    names = [f"{name}[{k}]" for name in ("q", "tau_J", "tau_J_d", "theta", "tau_ext_hat_filtered") for k in range(7)]
    for unit, scale in (("s", 1.0), ("ms", 1000.0)):
        table = np.column_stack([scale * (5.0 + t), q, tau, tau, q, tau])
        path = write(tmp_path / f"{unit}.csv", ["time", *names], table.T, ", ")
        assert sniff(path)[0] == "franka_csv"
        log = read_log(path, EMPTY)
        assert log.sample_rate_hz == pytest.approx(1000.0)
        np.testing.assert_allclose(log.signal("torque").values, tau, rtol=1e-8)
        assert {s.side for s in log.signals} == {"joint"}
    for model in ("tau_J_d", "tau_ext_hat_filtered"):
        entry = {"kind": "torque", "columns": [model]}
        with pytest.raises(InvalidLog, match=rf"{model}\[0\] is what the controller's own model computes"):
            read_log(path, ColumnMap.model_validate({"signals": [entry]}))
    entry = {"kind": "position", "columns": ["theta"]}
    with pytest.raises(InvalidLog, match="does not say on which side theta of position is; declare side"):
        read_log(path, ColumnMap.model_validate({"signals": [entry]}))
    log = read_log(path, ColumnMap.model_validate({"signals": [{**entry, "side": "motor"}]}))
    assert log.signal("position").side == "motor"


def test_the_egm_client(tmp_path, rng):
    t, q, tau = signals(rng, rate=250.0)
    axes = [f"A{k}" for k in range(1, 7)]
    names = ["time_s", "controller_ms", "packet", "computer_s", "phase", "mark", "period"]
    names += [f"{kind}_{axis}_deg" for kind in ("ref", "pos", "planned") for axis in axes]
    names += ["motors_on", "egm_running", "utilization_percent", *(f"torque_{k}" for k in range(1, 7))]
    ones = np.ones(N)
    head = [t, 4 * np.arange(N), np.arange(N), t, ["main"] * N, 1001 * ones, ones]
    planned = np.full((6, N), np.nan)
    write(tmp_path / "log.csv", names, [*head, *(q.T + 0.01), *q.T, *planned, ones, ones, 50 * ones, *tau.T])
    assert sniff(tmp_path / "log.csv")[0] == "abb_text"
    recording = read_raw(tmp_path / "log.csv")
    assert recording.channel("mark").kind == "marker"
    assert recording.channel("ref_A1_deg").role == "reference"
    assert any("without values: planned_A1_deg" in note for note in recording.notes)
    entry = {"kind": "torque", "unit": "N m", "columns": ["torque"]}
    with pytest.raises(InvalidLog, match="does not say on which side torque of torque is"):
        read_log(tmp_path / "log.csv", ColumnMap.model_validate({"signals": [entry]}))
    log = read_log(tmp_path / "log.csv", ColumnMap.model_validate({"signals": [{**entry, "side": "motor"}]}))
    np.testing.assert_allclose(log.signal("torque").values, tau, rtol=1e-8)
    np.testing.assert_allclose(log.signal("position").values, np.radians(q), atol=1e-9)


def test_lines_of_test_signals(tmp_path, rng):
    t, _, tau = signals(rng, rate=250.0)
    write(tmp_path / "log.txt", [], [1000.0 * t, *tau.T], " ")
    assert sniff(tmp_path / "log.txt")[0] == "abb_text"
    recording = read_raw(tmp_path / "log.txt")
    assert any("which test signals they are, and on which side, the text does not say" in n for n in recording.notes)
    with pytest.raises(InvalidLog, match="does not say what its channels are"):
        read_log(tmp_path / "log.txt", EMPTY)
    entry = {"kind": "torque", "side": "motor", "unit": "N m", "columns": ["signal"]}
    log = read_log(tmp_path / "log.txt", ColumnMap.model_validate({"signals": [entry]}))
    np.testing.assert_allclose(log.signal("torque").values, tau, rtol=1e-8)
    assert log.sample_rate_hz == pytest.approx(250.0)


def test_a_recorder_of_joints(tmp_path, rng):
    t, q, _ = signals(rng, rate=250.0)
    write(tmp_path / "log.csv", ["timestamp", "cmdnum", *(f"J{k}" for k in range(1, 7))], [t, np.ones(N), *q.T])
    assert sniff(tmp_path / "log.csv")[0] == "abb_text"
    np.testing.assert_allclose(
        read_log(tmp_path / "log.csv", EMPTY).signal("position").values, np.radians(q), atol=1e-9
    )


def test_the_rsi_server(tmp_path, rng):
    t, q, current = signals(rng, rate=250.0)
    names = [
        "time_s",
        "mark",
        "period",
        *(f"{kind}_A{k}" for kind in ("reference", "actual", "current") for k in range(1, 7)),
    ]
    write(tmp_path / "log.csv", names, [t, np.ones(N), np.ones(N), *q.T, *q.T, *current.T])
    assert sniff(tmp_path / "log.csv")[0] == "client_csv"
    with pytest.raises(InvalidLog, match="does not define all .* torques or currents: 'current'; declare"):
        read_log(tmp_path / "log.csv", EMPTY)
    entry = {"kind": "current", "unit": "A", "columns": ["current"], "scale": 0.5}
    log = read_log(tmp_path / "log.csv", ColumnMap.model_validate({"signals": [entry]}))
    np.testing.assert_allclose(log.signal("current").values, 0.5 * current, rtol=1e-8)
    assert log.signal("current").side == "motor"


def test_the_stream_motion_client(tmp_path, rng):
    """Rows of lost packets repeat the stamp of the row before: they are left out."""
    t, q, current = signals(rng, rate=125.0)
    joints = range(1, 7)
    names = ["time_stamp_ms", "sequence", "stretch", "part", "mark", *(f"command_J{k}_deg" for k in joints)]
    names += [*(f"J{k}_deg" for k in joints), *(f"current_J{k}_A" for k in joints), "safety_scale"]
    ms = 1000.0 * t
    ms[50] = ms[49]
    write(
        tmp_path / "log.csv",
        names,
        [ms, np.arange(N), ["main"] * N, *np.ones((2, N)), *q.T, *q.T, *current.T, np.ones(N)],
    )
    assert sniff(tmp_path / "log.csv")[0] == "fanuc_csv"
    log = read_log(tmp_path / "log.csv", EMPTY)
    assert any("1 rows repeat the time of the row before (first: row 52)" in note for note in log.notes)
    assert log.sample_rate_hz == pytest.approx(125.0)
    kept = np.delete(np.arange(N), 50)
    np.testing.assert_allclose(log.signal("current").values[kept], current[kept], atol=1e-8)
    assert log.raw.channel("safety_scale").kind == "speed_scaling"


def test_the_ros_client(tmp_path, rng):
    """What the driver does not tell is empty; effort is asked for."""
    t, q, effort = signals(rng, joints=2, rate=100.0)
    since = ["" if k < 20 else f"{x - t[20]:.6f}" for k, x in enumerate(t)]
    names = [
        "time",
        "t",
        "speed_scaling",
        "mark",
        *(f"{kind}:{j}" for kind in ("position", "velocity", "effort") for j in "ab"),
    ]
    blank = [[""] * N] * 2
    write(
        tmp_path / "log.csv",
        names,
        [1e9 + t, since, np.full(N, 100.0), np.zeros(N), *q.T, *blank, *effort.T],
        form="{:.12g}",
    )
    recording = read_raw(tmp_path / "log.csv")
    assert recording.format == "client_csv"
    assert len(recording.channel("t").values) == N - 20
    assert recording.channel("t").clock.rows[0] == 22
    with pytest.raises(
        InvalidLog, match=r"does not define all \(kind, side or unit\) of its torques or currents: 'effort'"
    ):
        read_log(tmp_path / "log.csv", EMPTY)
    entry = {"kind": "current", "side": "motor", "unit": "A", "columns": ["effort"]}
    log = read_log(tmp_path / "log.csv", ColumnMap.model_validate({"signals": [entry]}))
    np.testing.assert_allclose(log.signal("current").values, effort, atol=1e-8)


SCOPE = [
    ("Name", "Axis1.ActPos", "Axis2.ActPos", "Name", "Axis1.Torque", "Axis2.Torque"),
    ("SymbolComment", "", "", "SymbolComment", "", ""),
    ("SampleTime[ms]", "2", "2", "SampleTime[ms]", "1", "1"),
    ("ScaleFactor", "1", "1", "ScaleFactor", "1", "1"),
    ("Unit", "deg", "deg", "Unit", "(None)", "(None)"),
]


def scope(path, rng, comma=True):
    t, q, tau = signals(rng, joints=2, rate=1000.0)
    lines = ["Name\tProject", "Starttime of export\t132959733843760000\tx", "", *("\t".join(row) for row in SCOPE), ""]
    for k in range(N):
        slow = [2.0 * k, *q[2 * k]] if 2 * k < N else [None] * 3
        cells = [" " if x is None else f"{x:.9f}" for x in [*slow, 1.0 * k, *tau[k]]]
        lines.append("\t".join(cells))
    text = "\n".join([*lines, "EOF", ""])
    head, _, body = text.partition("\n\n" + "\t".join(SCOPE[0]))
    path.write_text(
        head + "\n\n" + "\t".join(SCOPE[0]) + (body.replace(".", ",").replace("Axis1,", "Axis1.") if comma else body)
    )
    return t, q, tau


@pytest.mark.parametrize("comma", [False, True])
def test_scope_of_two_rates(tmp_path, rng, comma):
    t, q, tau = scope(tmp_path / "log.csv", rng, comma)
    recording = read_raw(tmp_path / "log.csv")
    assert recording.format == "twincat_scope"
    assert [c.unit for c in recording.channels] == ["deg", "deg", None, None]
    np.testing.assert_allclose(recording.channels[0].t, t[::2], atol=1e-12)
    names = [c.name for c in recording.channels]
    declared = ColumnMap.model_validate(
        {
            "signals": [
                {"kind": "position", "side": "joint", "columns": names[:2]},
                {"kind": "torque", "side": "motor", "unit": "mN m", "columns": [3, 4], "scale": [5.0, -2.0]},
            ]
        }
    )
    log = read_log(tmp_path / "log.csv", declared)
    assert log.sample_rate_hz == pytest.approx(1000.0)
    np.testing.assert_allclose(log.signal("torque").values, 1e-3 * tau[:199] * [5.0, -2.0], atol=1e-9)
    np.testing.assert_allclose(log.signal("position").values, np.radians(q[:199]), atol=1e-5)


def trace(folder, rng, german=True, drop=0, offset=7.0):
    """A DIAdem folder: axes at 12 ms, two drives at 4 ms; values are stored scaled and shifted."""
    t, q, current = signals(rng, n=300, joints=2, rate=250.0)
    names = (
        ("Istposition", "Iststrom", "Sollposition")
        if german
        else ("Actual position", "Actual current", "Command position")
    )
    tells = "EXPLIZIT" if german else "EXPLICIT"

    def pair(stem, step, channels):
        codes = ["DIAEXTENDED", "", "#BEGINGLOBALHEADER", "1,Origin, with, commas", "#ENDGLOBALHEADER"]
        time = "Zeit" if german else "Time"
        implicit = "IMPLIZIT" if german else "IMPLICIT"
        codes += [
            "#BEGINCHANNELHEADER",
            f"200,{time}",
            "202,s",
            f"210,{implicit}",
            "220,0",
            "240,0",
            f"241,{step}",
            "#ENDCHANNELHEADER",
        ]
        for k, (name, unit, values) in enumerate(channels, start=1):
            codes += [
                "#BEGINCHANNELHEADER",
                f"200,{name}",
                "201,a, comment",
                f"202,{unit}",
                f"210,{tells}",
                f"211,{stem}.r64",
            ]
            codes += [
                "213,BLOCK",
                "214,REAL64",
                f"220,{len(values)}",
                f"221,{k}",
                f"240,{offset}",
                "241,0.25",
                "#ENDCHANNELHEADER",
            ]
        (folder / f"{stem}.dat").write_text("\r\n".join(codes) + "\r\n", encoding="latin-1")
        raw = (np.column_stack([values for *_, values in channels]) - offset) / 0.25
        (folder / f"{stem}.r64").write_bytes(raw.astype("<f8").tobytes()[: -drop or None])

    pair(
        "RUN_KRCIpo",
        0.012,
        [
            (f"{kind}{k + 1}", "°", q[::3, k] + shift)
            for kind, shift in (("AxisPos_CmdIpo", 0.1), ("AxisPos_Act", 0))
            for k in range(2)
        ],
    )
    for k in range(2):
        pair(
            f"RUN_NextGenDrive#{k + 1}",
            0.004,
            [(names[0], "°", 100 * q[:, k]), (names[1], "A", current[:, k]), (names[2], "°", 100 * q[:, k])],
        )
    return t, q, current


@pytest.mark.parametrize("german", [True, False])
def test_a_trace_of_axes_and_drives(tmp_path, rng, german):
    t, q, current = trace(tmp_path, rng, german)
    path = tmp_path / "RUN_KRCIpo.dat"
    assert sniff(path) == sniff(tmp_path) == ["kuka_trace"]
    recording = read_raw(path)
    axis = recording.channel("KRCIpo/AxisPos_Act2")
    np.testing.assert_allclose(axis.values, q[::3, 1], atol=1e-12)
    np.testing.assert_allclose(axis.t, t[::3])
    assert (axis.kind, axis.joint, axis.role, axis.side, axis.unit) == ("position", 1, "measured", "joint", "deg")
    drive = next(c for c in recording.channels if c.kind == "current" and c.joint == 1)
    assert (drive.side, drive.unit, drive.role, len(drive.values)) == ("motor", "A", "measured", 300)
    assert len(read_raw(tmp_path).channels) == len(recording.channels) == 10
    stems = ["RUN_KRCIpo", "RUN_NextGenDrive#1", "RUN_NextGenDrive#2"]
    assert {file.name for file in log_files(path)} == {f"{stem}.{end}" for stem in stems for end in ("dat", "r64")}
    with pytest.raises(InvalidLog, match="has more than one kind of positions: 'KRCIpo/AxisPos_Act' and"):
        read_log(path, EMPTY)
    entry = {"kind": "position", "columns": ["KRCIpo/AxisPos_Act"]}
    log = read_log(path, ColumnMap.model_validate({"signals": [entry]}))
    assert log.sample_rate_hz == pytest.approx(250.0)
    np.testing.assert_allclose(log.signal("current").values, current[: len(log.signal("current").values)], atol=1e-9)
    inner = slice(5, -5)
    truth = np.radians(q[: len(log.signal("position").values)])
    np.testing.assert_allclose(log.signal("position").values[inner], truth[inner], atol=1e-6)
    motor = [c for c in recording.channels if c.kind == "position" and c.side == "motor" and c.role == "measured"]
    entry = {"kind": "position", "columns": [c.name for c in motor]}
    log = read_log(path, ColumnMap.model_validate({"signals": [entry]}))
    assert log.signal("position").side == "motor"
    np.testing.assert_allclose(log.signal("position").values, np.radians(100 * q), atol=1e-9)


def test_a_trace_cut_within_its_last_row(tmp_path, rng):
    trace(tmp_path, rng, drop=4)
    recording = read_raw(tmp_path / "RUN_KRCIpo.dat")
    assert len(recording.channel("KRCIpo/AxisPos_Act1").values) == 99
    assert any("RUN_KRCIpo.r64 ends within a row, which is left out" in note for note in recording.notes)


def test_a_trace_stored_channel_by_channel(tmp_path):
    codes = ["DIAEXTENDED", "200,Time", "202,ms", "210,IMPLICIT", "241,2"]
    for k in range(2):
        codes += [
            f"200,AxisPos_Act{k + 1}",
            "202,rad",
            "210,EXPLICIT",
            "211,x.r64",
            "213,CHANNEL",
            "214,REAL32",
            "220,5",
            f"221,{5 * k + 1}",
        ]
    (tmp_path / "x.dat").write_text("\n".join(codes))
    (tmp_path / "x.r64").write_bytes(np.arange(10.0).astype("<f4").tobytes())
    recording = read_raw(tmp_path / "x.dat")
    np.testing.assert_array_equal(recording.channel("AxisPos_Act2").values, np.arange(5.0, 10.0))
    np.testing.assert_allclose(recording.channel("AxisPos_Act2").t, 0.002 * np.arange(5))


@pytest.mark.parametrize("headings", ["time;a;b", "1;2;3", "-0,5;2;3"])
def test_somebodys_own_table(tmp_path, headings):
    path = tmp_path / "log.csv"
    path.write_text(headings + "\n" + "".join(f"{k},5;{2 * k};{3 * k}\n" for k in range(10)))
    assert sniff(path) == ["csv"]
    recording = read_raw(path)
    assert recording.channels[0].clock.t is None
    assert recording.channels[0].name == ("time" if "time" in headings else "1")
    assert recording.channels[0].values[-1] == 9.5
    assert len(recording.channels[0].values) == (10 if "time" in headings else 11)


@pytest.mark.parametrize(
    ("headings", "step", "words"),
    [
        (["timestamp", "J1", "J2"], 0.008, "steps of 0.008, which cannot be ms as fanuc_csv has it; declare"),
        (["timestamp", "actual_q_0", "actual_q_1"], 8.0, "steps of 8, which cannot be s as ur_rtde has it"),
    ],
)
def test_a_time_in_another_unit_is_not_taken(tmp_path, headings, step, words):
    k = np.arange(20.0)
    write(tmp_path / "log.csv", headings, [step * k, k, k])
    with pytest.raises(InvalidLog, match=words):
        read_raw(tmp_path / "log.csv")


def test_bare_lines_in_seconds_are_no_test_signals(tmp_path, rng):
    t, _, tau = signals(rng, rate=250.0)
    write(tmp_path / "log.txt", [], [t, *tau.T], " ")
    assert sniff(tmp_path / "log.txt") == ["csv"]


def test_the_mark_of_our_own_program_in_an_export(tmp_path, rng):
    scope(tmp_path / "log.csv", rng, comma=False)
    text = (tmp_path / "log.csv").read_text().replace("Axis1.Torque", "Main.nMark")
    (tmp_path / "log.csv").write_text(text)
    assert read_raw(tmp_path / "log.csv").channel("Main.nMark").kind == "marker"
