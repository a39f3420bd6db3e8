"""Logs as people have them: what is read, what is mended and said, what is refused with its row."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from excitor.identify.log import joint_side
from excitor.identify.logs.declared import ColumnMap
from excitor.identify.logs.table import read_csv
from excitor.robots.errors import InvalidLog
from excitor.robots.load import load

GOOD = "t,q1,q2,q3,c1,c2,c3\n" + "".join(
    f"{0.01 * k:.2f},{0.1 * k:.3f},{0.2 * k:.3f},{0.3 * k:.3f},{k},{2 * k},{3 * k}\n" for k in range(20)
)
POSITION = {"kind": "position", "side": "joint", "unit": "rad", "columns": ["q1", "q2", "q3"]}
TORQUE = {"kind": "torque", "side": "joint", "unit": "N m", "columns": ["c1", "c2", "c3"]}
MAP = {"signals": [POSITION, TORQUE], "time": "t"}


def read(tmp_path, text, **changes):
    path = tmp_path / "log.csv"
    if isinstance(text, bytes):
        path.write_bytes(text)
    else:
        path.write_text(text, encoding="utf-8")
    return read_csv(path, ColumnMap.model_validate({**MAP, **changes}))


def row(text, number, new):
    lines = text.splitlines(keepends=True)
    lines[number - 1] = new
    return "".join(lines)


def test_a_good_log(tmp_path):
    log = read(tmp_path, GOOD)
    assert log.sample_rate_hz == pytest.approx(100.0)
    assert log.notes == ()
    np.testing.assert_allclose(log.signal("position").values[:, 2], 0.3 * np.arange(20))
    np.testing.assert_allclose(log.signal("torque").values[:, 1], 2.0 * np.arange(20))


@pytest.mark.parametrize("separator", [";", "\t", "  "])
def test_separators(tmp_path, separator):
    log = read(tmp_path, GOOD.replace(",", separator))
    np.testing.assert_allclose(log.signal("position").values[:, 0], 0.1 * np.arange(20))


def test_decimal_comma_is_read_and_said(tmp_path):
    log = read(tmp_path, GOOD.replace(",", ";").replace(".", ","))
    np.testing.assert_allclose(log.signal("position").values[:, 0], 0.1 * np.arange(20))
    assert log.notes == ("read with a decimal comma",)


def test_byte_order_mark_crlf_and_blank_lines(tmp_path):
    log = read(tmp_path, b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode() + b"\r\n\r\n")
    assert len(log.signal("position").values) == 20


def test_a_cut_last_row_is_left_out_and_said(tmp_path):
    log = read(tmp_path, GOOD + "0.20,2.0,4.")
    assert len(log.signal("position").values) == 20
    assert log.notes == ("row 22 is cut short; it is left out",)


def test_repeated_stamps_are_left_out_and_said(tmp_path):
    lines = GOOD.splitlines(keepends=True)
    log = read(tmp_path, "".join([*lines[:6], lines[5], *lines[6:]]))
    assert len(log.signal("position").values) == 20
    assert "1 rows repeat the time of the row before (first: row 7)" in log.notes[0]


def test_jitter_is_taken_out_by_the_stamps_and_said(tmp_path):
    log = read(tmp_path, row(GOOD, 8, "0.0605,0.605,1.21,1.815,6.05,12.1,18.15\n"))
    assert "steps of time vary from 0.0095 to 0.0105 s (by 5 % at most" in log.notes[0]
    assert "by cubic splines through the time stamps" in log.notes[1]
    np.testing.assert_allclose(log.signal("position").values[:, 0], 0.1 * np.arange(20), atol=1e-12)


def test_a_late_row_and_lost_ones_are_bridged(tmp_path):
    lines = GOOD.splitlines(keepends=True)
    log = read(tmp_path, "".join(lines[:8] + lines[12:]))
    assert "4 samples are missing, up to 4 in a row; bridged" in log.notes[0]
    np.testing.assert_allclose(log.signal("position").values[:, 0], 0.1 * np.arange(20), atol=1e-12)
    log = read(tmp_path, row(GOOD, 5, "0.034,0.34,0.68,1.02,3.4,6.8,10.2\n"))
    np.testing.assert_allclose(log.signal("torque").values[:, 1], 2.0 * np.arange(20), atol=1e-10)


def test_a_rate_beside_stamps_is_what_is_resampled_to(tmp_path):
    log = read(tmp_path, GOOD, sample_rate_hz=50.0)
    np.testing.assert_allclose(log.signal("position").values[:, 0], 0.2 * np.arange(10), atol=1e-12)


def test_stamps_of_an_even_clock_may_be_rounded(tmp_path):
    """Stamps of 300 Hz in whole milliseconds; what happens at 10 and 12 ms in turn is no rounding."""
    lines = ["t,q1,q2,q3,c1,c2,c3"] + [f"{k / 300:.3f},{k},{k},{k},{k},{k},{k}" for k in range(300)]
    log = read(tmp_path, "\n".join(lines) + "\n")
    assert "an even clock, rounded to 0.001 s" in log.notes[0]
    assert log.sample_rate_hz == pytest.approx(300.0, rel=1e-3)
    np.testing.assert_array_equal(log.signal("position").values[:, 0], np.arange(300.0))


def test_columns_that_nobody_declared_are_not_judged(tmp_path):
    lines = GOOD.splitlines()
    text = "\n".join(
        [lines[0] + ",junk", *(f"{line},{'#N/A' if k % 2 else -1.6e187}" for k, line in enumerate(lines[1:]))]
    )
    np.testing.assert_array_equal(
        read(tmp_path, text).signal("torque").values, read(tmp_path, GOOD).signal("torque").values
    )


def test_spikes_are_bridged_and_named_with_row_and_value(tmp_path):
    lines = GOOD.splitlines(keepends=True)
    cells = lines[9].split(",")
    log = read(tmp_path, row(GOOD, 10, ",".join([*cells[:4], "253", *cells[5:]])))
    assert log.notes == ("c1 is 253 at row 10, far off its neighbours: bridged",)
    np.testing.assert_allclose(log.signal("torque").values[:, 0], np.arange(20.0), atol=1e-12)


def test_faults_of_the_clock_outside_of_the_run_do_no_harm(tmp_path):
    (tmp_path / "log.csv").write_text(row(GOOD, 5, "9.0,0.3,0.6,0.9,3,6,9\n"))
    with pytest.raises(InvalidLog, match=r"row 6: time runs backward in t, from 9 to 0.04 s; .* to_s, from_s"):
        read_csv(tmp_path / "log.csv", ColumnMap.model_validate(MAP), (0.0, np.inf))
    log = read_csv(tmp_path / "log.csv", ColumnMap.model_validate(MAP), (0.05, 0.1))
    assert log.skipped_s == pytest.approx(0.04)
    np.testing.assert_allclose(log.signal("position").values[:, 0], 0.1 * np.arange(4, 20), atol=1e-12)
    late = "".join(f"{9 + 0.01 * k:.2f}," + line.partition(",")[2] for k, line in enumerate(GOOD.splitlines(True)[1:]))
    (tmp_path / "log.csv").write_text(GOOD + late)
    with pytest.raises(InvalidLog, match=r"8.81 s are missing in t before this row .* state a lower sample_rate_hz"):
        read_csv(tmp_path / "log.csv", ColumnMap.model_validate(MAP))
    log = read_csv(tmp_path / "log.csv", ColumnMap.model_validate(MAP), (0.0, 9.1))
    assert np.array(log.gaps) == pytest.approx(np.array([[0.19, 9.0]]))
    assert "1 gaps of up to 8.81 s (first: before row 22) are too long to be bridged" in log.notes[0]


def test_columns_by_number_without_headings(tmp_path):
    text = "".join(GOOD.splitlines(keepends=True)[1:])
    signals = [{**POSITION, "columns": [2, 3, 4]}, {**TORQUE, "columns": [5, 6, 7]}]
    log = read(tmp_path, text, signals=signals, time=1, header=False)
    np.testing.assert_allclose(log.signal("torque").values[:, 2], 3.0 * np.arange(20))


def test_two_files_and_a_given_rate(tmp_path):
    (tmp_path / "tau.csv").write_text("a,b,c\n" + "1,2,3\n" * 20)
    signals = [POSITION, {**TORQUE, "columns": ["a", "b", "c"], "file": "tau.csv"}]
    log = read(tmp_path, GOOD, signals=signals, time=None, sample_rate_hz=5000.0)
    assert log.sample_rate_hz == 5000.0
    np.testing.assert_allclose(log.signal("torque").values[0], [1, 2, 3])


@pytest.mark.parametrize(
    ("kind", "unit", "factor"),
    [
        ("position", "deg", np.pi / 180),
        ("position", "rev", 2 * np.pi),
        ("position", "mm", 1e-3),
        ("torque", "mN m", 1e-3),
    ],
)
def test_units_become_si(tmp_path, kind, unit, factor):
    signals = [{**(POSITION if kind == "position" else TORQUE), "unit": unit}]
    log = read(tmp_path, GOOD, signals=signals)
    plain = read(tmp_path, GOOD).signal(kind).values
    np.testing.assert_allclose(log.signal(kind).values, factor * plain)


def test_scales_and_signs(tmp_path):
    log = read(tmp_path, GOOD, signals=[{**POSITION, "scale": [1.0, -1.0, 0.5]}])
    np.testing.assert_allclose(log.signal("position").values[1], [0.1, -0.2, 0.15])


def test_motor_side_becomes_joint_side(tmp_path):
    robot = load("kr150")
    text = "a,b,c,d,e,f,g,h,i,j,k,l\n" + "1,2,3,4,5,6,1,2,3,4,5,6\n" * 5
    signals = [
        {"kind": "position", "side": "motor", "unit": "rad", "columns": list("abcdef")},
        {"kind": "current", "side": "motor", "unit": "A", "columns": list("ghijkl")},
    ]
    measured = joint_side(robot, read(tmp_path, text, signals=signals, time=None, sample_rate_hz=100.0))
    N = robot.drive.motor_from_joint
    np.testing.assert_allclose(measured.q[0], np.linalg.solve(N, np.arange(1.0, 7.0)))
    c = robot.drive.torque_from_current
    current = np.arange(1.0, 7.0)
    torque = c[:, 0] + c[:, 1] * current + c[:, 2] * current**2 + c[:, 3] * current**3
    np.testing.assert_allclose(measured.tau[0], N.T @ torque)
    assert [step.name for step in measured.steps][1:] == [
        "positions to the joint side",
        "current to torque",
        "torques to the joint side",
    ]


def test_what_is_missing_is_reported(tmp_path):
    with pytest.raises(InvalidLog, match="has no torques or currents"):
        joint_side(load("rotradi"), read(tmp_path, GOOD, signals=[POSITION]))
    with pytest.raises(InvalidLog, match="positions of 3 joints, expected the 6 of tx40"):
        joint_side(load("tx40"), read(tmp_path, GOOD))


BAD = {
    "empty": ("", "is empty"),
    "blank lines only": ("\n\n  \n", "is empty"),
    "headings only": ("t,q1,q2,q3,c1,c2,c3\n", "has headings but no samples"),
    "text in a number": (row(GOOD, 5, "0.03,0.3,abc,0.9,3,6,9\n"), "row 5: column 3 is 'abc', expected a number"),
    "empty cell": (row(GOOD, 5, "0.03,0.3,,0.9,3,6,9\n"), "row 5: column 3 is empty"),
    "row too short": (row(GOOD, 5, "0.03,0.3,0.6\n"), "row 5: has 3 entries, expected 7"),
    "row too long": (row(GOOD, 5, "0.03,0.3,0.6,0.9,3,6,9,10\n"), "row 5: has 8 entries, expected 7"),
    "huge value": (row(GOOD, 5, "0.03,0.3,0.6,1e300,3,6,9\n"), "row 5: column 4 is 1e+300, which no robot measures"),
    "not a number": (row(GOOD, 5, "0.03,0.3,0.6,nan,3,6,9\n"), "row 5: column 4 is nan"),
    "infinite": (row(GOOD, 5, "0.03,0.3,0.6,-inf,3,6,9\n"), "row 5: column 4 is -inf"),
    "time backward": (row(GOOD, 5, "0.01,0.3,0.6,0.9,3,6,9\n"), "row 5: time runs backward in t, from 0.02 to 0.01 s"),
    "a gap": (
        "".join(GOOD.splitlines(keepends=True)[:6] + GOOD.splitlines(keepends=True)[14:]),
        "are missing in t before",
    ),
    "two samples": ("".join(GOOD.splitlines(keepends=True)[:3]), "has 2 samples, expected at least 3"),
    "one long line": ("x" * 300_000, "has a line of more than"),
    "numbers for headings": ("".join(GOOD.splitlines(keepends=True)[1:]), "has numbers where headings were expected"),
    "binary": (b"\x00\x01\x02" * 100, "contains zero bytes"),
    "utf-16 without its mark": (GOOD.encode("utf-16-le"), "contains zero bytes"),
    "latin-1": (GOOD.replace("q1", "q\u00e4").encode("latin-1"), "is not UTF-8 text"),
    "prose": ("dear robot\nplease move\nthank you\n", "has no column 't'"),
    "html": ("<html>\n<body>1</body>\n</html>\n", "has no column 't'"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_logs_are_refused_with_their_row(tmp_path, case):
    text, words = BAD[case]
    with pytest.raises(InvalidLog) as error:
        read(tmp_path, text)
    assert words in str(error.value)
    assert "log.csv" in str(error.value)


BAD_MAPS = {
    "no such heading": (
        {"signals": [{**POSITION, "columns": ["q1", "q2", "q9"]}]},
        "has no column 'q9'; its columns are",
    ),
    "no such number": ({"signals": [{**POSITION, "columns": [2, 3, 99]}]}, "asks for number 99"),
    "number 0": ({"signals": [{**POSITION, "columns": [0, 1, 2]}]}, "asks for number 0"),
    "a column twice": ({"signals": [{**POSITION, "columns": ["q1", "q1", "q3"]}]}, "names a column of position twice"),
    "unknown unit": ({"signals": [{**POSITION, "unit": "furlong"}]}, "position in 'furlong' is not known"),
    "torque in degrees": ({"signals": [{**TORQUE, "unit": "deg"}]}, "torque in 'deg' is not known"),
    "scale of 0": ({"signals": [{**POSITION, "scale": 0.0}]}, "expected a number other than 0"),
    "scales too few": (
        {"signals": [{**POSITION, "scale": [1.0, 2.0]}]},
        "expected a number other than 0 for each column",
    ),
    "no time at all": ({"time": None}, "needs either time or sample_rate_hz"),
    "file outside": ({"signals": [POSITION, {**TORQUE, "file": "../tau.csv"}]}, "leaves the folder"),
    "file missing": ({"signals": [POSITION, {**TORQUE, "file": "tau.csv"}]}, "does not exist"),
}


@pytest.mark.parametrize("case", BAD_MAPS)
def test_maps_that_do_not_fit_are_refused(tmp_path, case):
    changes, words = BAD_MAPS[case]
    with pytest.raises(InvalidLog, match=words.replace("(", r"\(")):
        read(tmp_path, GOOD, **changes)


def test_files_of_different_rates_are_refused(tmp_path):
    (tmp_path / "tau.csv").write_text("a,b,c\n" + "1,2,3\n" * 40)
    signals = [POSITION, {**TORQUE, "columns": ["a", "b", "c"], "file": "tau.csv"}]
    with pytest.raises(InvalidLog, match="tau.csv has 40 rows, expected 20"):
        read(tmp_path, GOOD, signals=signals)


def test_a_models_torque_is_no_measurement(tmp_path):
    text = GOOD.replace("c1", "target_moment_0").replace("c2", "target_moment_1").replace("c3", "target_moment_2")
    signals = [POSITION, {**TORQUE, "columns": ["target_moment_0", "target_moment_1", "target_moment_2"]}]
    with pytest.raises(InvalidLog, match="sounds like a model's torque"):
        read(tmp_path, text, signals=signals)


@settings(derandomize=True, max_examples=150, deadline=None)
@given(st.integers(0, len(GOOD) - 1), st.integers(0, 30), st.text(max_size=12))
def test_mangled_logs_never_crash(tmp_path_factory, at, cut, new):
    path = tmp_path_factory.mktemp("fuzz") / "log.csv"
    path.write_text(GOOD[:at] + new + GOOD[at + cut :], encoding="utf-8", errors="replace")
    try:
        log = read_csv(path, ColumnMap.model_validate(MAP))
    except InvalidLog:
        return
    assert np.isfinite(log.signal("position").values).all()


@pytest.mark.parametrize(("unit", "turn"), [("rad", 2.0 * np.pi), ("deg", 360.0)])
def test_turns_are_counted_on(tmp_path, unit, turn):
    t = np.arange(400) / 100.0
    q = np.column_stack([0.6 * turn * np.sin(2.0 * t + k) for k in range(3)])
    wrapped = (q + 0.5 * turn) % turn - 0.5 * turn
    rows = [",".join(f"{x:.6f}" for x in row) for row in np.column_stack([t, wrapped, wrapped])]
    log = read(tmp_path, "t,q1,q2,q3,c1,c2,c3\n" + "\n".join(rows) + "\n",
               signals=[POSITION | {"unit": unit}, TORQUE])  # fmt: skip
    found = log.signal("position").values * turn / (2.0 * np.pi)
    np.testing.assert_allclose(found - found[0], q - q[0], atol=1e-5 * turn)
    assert np.ptp(log.signal("torque").values) < 1.001 * turn, "torques are as they are"
    assert sum("starts anew after a turn" in note for note in log.notes) == 3


def test_stamps_may_count_from_1970(tmp_path):
    head, *rows = GOOD.splitlines()
    late = [",".join([str(1_700_000_000_000_000 + 10_000 * k), *row.split(",")[1:]]) for k, row in enumerate(rows)]
    log = read(tmp_path, "\n".join([head, *late]) + "\n", time_unit="us")
    assert log.sample_rate_hz == pytest.approx(100.0)


STAMPED = {
    "utf-16": GOOD.encode("utf-16"),
    "metadata": "".join(f"# key {k}: value {k}\n" for k in range(20)) + GOOD,
    "a block of other text": "Report\nOperator: Miller\nDate;2026-01-02\n\nrate 100 Hz, 3 joints\n" + GOOD,
    "a line of units": GOOD.replace("\n", "\n[s],rad,rad,rad,Nm,Nm,Nm\n", 1),
    "times of day": "".join(
        f"2026-01-02T23:59:5{line[0]}{line[1:4]}{line[4:]}" if k else line
        for k, line in enumerate(GOOD.splitlines(keepends=True))
    ),
}


@pytest.mark.parametrize("case", STAMPED)
def test_what_recorders_add_to_a_table(tmp_path, case):
    log, plain = read(tmp_path, STAMPED[case]), read(tmp_path, GOOD)
    assert log.sample_rate_hz == pytest.approx(plain.sample_rate_hz)
    for kind in ("position", "torque"):
        np.testing.assert_allclose(log.signal(kind).values, plain.signal(kind).values, atol=1e-9)


@pytest.mark.parametrize("mark", [",", "."])
@pytest.mark.parametrize("separator", [";", "\t"])
def test_marks_of_thousands(tmp_path, mark, separator):
    """Torques beyond 1000 from the last rows on, as spreadsheets write them."""
    values = np.column_stack([0.01 * np.arange(80), *[np.linspace(0.1, 1.0, 80)] * 3, *[40.5 * np.arange(80)] * 3])
    cells = [[f"{x:,.2f}" for x in row] for row in values]
    if mark == ".":
        cells = [[cell.translate(str.maketrans(",.", ".,")) for cell in row] for row in cells]
    text = "\n".join([separator.join(["t", "q1", "q2", "q3", "c1", "c2", "c3"]), *map(separator.join, cells), ""])
    log = read(tmp_path, text)
    np.testing.assert_allclose(log.signal("torque").values[:, 0], 40.5 * np.arange(80), atol=1e-6)
    assert "between thousands" in log.notes[0]


def test_a_mark_that_may_be_either_is_refused(tmp_path):
    text = GOOD.replace(",", ";").replace("\n0.05;0.500;", "\n0,050;0.500;")
    with pytest.raises(InvalidLog, match=r"row 6: '1.200' may be thousands or a decimal fraction"):
        read(tmp_path, text)


def coarse(step, written=1):
    """Rows of a motion at 500 Hz whose stamps go by a longer step, each written so many times."""
    t = np.repeat(np.arange(600) * 0.002, written)
    table = np.column_stack([np.floor(t / step + 1e-9) * step, *[np.sin(3.0 * t)] * 3, *[t] * 3])
    return "t,q1,q2,q3,c1,c2,c3\n" + "".join(",".join(f"{x:.9g}" for x in row) + "\n" for row in table)


def test_rows_are_placed_between_the_ticks_of_a_coarse_clock(tmp_path):
    log = read(tmp_path, coarse(0.01))
    assert log.sample_rate_hz == pytest.approx(500.0, rel=0.01)
    assert len(log) == 600
    assert "rows share a stamp of this coarse clock; an even rate is taken" in log.notes[0]


def test_rows_that_were_written_twice_are_left_out(tmp_path):
    log = read(tmp_path, coarse(0.002, written=2))
    assert log.sample_rate_hz == pytest.approx(500.0)
    assert len(log) == 600
    assert "600 rows repeat the time of the row before" in log.notes[0]


def test_shares_of_rated_values_ask_for_them(tmp_path):
    with pytest.raises(InvalidLog, match=r"a share of rated values, .* scale = \[rated torque / 100"):
        read(tmp_path, GOOD, signals=[POSITION, {**TORQUE, "unit": "%"}])
    log = read(tmp_path, GOOD, signals=[POSITION, {**TORQUE, "scale": [2.0, 1.0, 0.5]}])
    np.testing.assert_allclose(log.signal("torque").values[:, 0], 2.0 * np.arange(20))
