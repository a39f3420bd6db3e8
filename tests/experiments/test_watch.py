"""`excitor watch`: logs that grow and logs that appear, cut into cycles, judged, and gone on with after a restart."""

import json
import os
import signal
import threading
import time
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.watch import (
    LOG_HZ,
    NO_LOAD,
    begin_day,
    draw_day,
    log_heading,
    log_lines,
    next_cycle,
    tool_load,
    write_campaign,
)
from excitor.experiments.campaign import open_campaign
from excitor.experiments.verbs import watch as command
from excitor.experiments.verbs.watch import print_summary, run_watch
from excitor.experiments.watch.session import Cutter, add, begin_session, cut, open_basis
from excitor.experiments.watch.sources import Place, moved, new_logs, open_source, read_on
from excitor.robots.errors import ExcitorError, InvalidLog
from excitor.robots.load import load

CYCLE_S = 6.0
STEP_AT = 26


@pytest.fixture(scope="module")
def day():
    return draw_day(load("rotradi"), 3, cycle_s=CYCLE_S)


@pytest.fixture(scope="module")
def cycles(day):
    """Thirty cycles as text, by (q, tau); the load changes in the last four."""
    hours = begin_day(day)
    return [next_cycle(hours, tool_load(day, 0.5) if k >= STEP_AT else NO_LOAD) for k in range(30)]


@pytest.fixture
def cell(tmp_path, day):
    write_campaign(tmp_path, day, f"period_s = {CYCLE_S}")
    return tmp_path


def text(day, cycles, t=0.0, heading=True):
    q, tau = (np.concatenate([cycle[k] for cycle in cycles]) for k in (0, 1))
    return (log_heading(day.robot) if heading else "") + log_lines(t, q, tau)


def watch(capsys, *arguments, **options):
    """Watch once: exit code, the JSON object on stdout, and what was told."""
    told = []
    code = run_watch(*arguments, as_json=True, interval=0.01, tell=told.append, **options)
    return code, json.loads(capsys.readouterr().out), told


def test_a_growing_log_is_watched_and_gone_on_with(cell, day, cycles, capsys):
    log, whole = cell / "live.csv", text(day, cycles)
    seen, at = 0, 0
    for share in (0.21, 0.5, 0.503, 0.8501):  # never at the end of a line, or of a cycle
        end = int(share * len(whole))
        with log.open("a") as file:
            file.write(whole[at:end])
        at = end
        code, data, told = watch(capsys, cell, log)
        seen += data["new_cycles"]
        assert (code, data["new_alarms"], told) == (0, [], [])
        assert data["cycles"] == seen
    assert 24 <= seen <= 25
    assert not data["learning"]
    with log.open("a") as file:
        file.write(whole[at:] + "0.0,1")
    code, data, told = watch(capsys, cell, log)
    assert code == 1
    assert data["cycles"] == 29  # the last one lacks the samples after it that its filter asks for
    first, second = data["new_alarms"]
    assert first["cycle"] == STEP_AT + 1
    assert first["at_s"] == pytest.approx(STEP_AT * CYCLE_S)
    assert first["alarms"][0]["what"] == "load at the tool"
    assert second["confirmed"][0]["change"]["δM"] == pytest.approx(0.5, abs=0.05)
    assert "kg more at the tool" in told[0]
    code, data, _ = watch(capsys, cell, log)
    assert (code, data["new_cycles"], data["cycles"]) == (0, 0, 29)


@pytest.mark.parametrize("cut_by", [f"period_s = {CYCLE_S}", "cycle_s = 5.0"])
def test_in_pieces_or_at_once_is_the_same(cell, day, cycles, capsys, cut_by):
    write_campaign(cell, day, cut_by)
    log, whole = cell / "live.csv", text(day, cycles)
    at = 0
    for end in (int(0.41 * len(whole)), int(0.47 * len(whole)), len(whole)):
        with log.open("a") as file:
            file.write(whole[at:end])
        at = end
        _, pieces, _ = watch(capsys, cell, log)
    (cell / "watch.json").unlink()
    _, once, _ = watch(capsys, cell, log)
    if cut_by.startswith("cycle_s"):  # found in other samples, cycles may begin elsewhere
        assert 27 <= once["cycles"] <= 30
        assert abs(once["cycles"] - pieces["cycles"]) <= 1
        return
    assert once["cycles"] == pieces["cycles"] == 29
    assert [alarm["cycle"] for alarm in once["alarms"]] == [alarm["cycle"] for alarm in pieces["alarms"]]
    for one, other in zip(once["parameters"], pieces["parameters"], strict=True):
        assert one["value"] == pytest.approx(other["value"], rel=1e-6, abs=1e-9)


def test_parameters_come_back_with_their_drift(cell, day, cycles, capsys):
    (cell / "live.csv").write_text(text(day, cycles[:20]))
    _, data, _ = watch(capsys, cell, cell / "live.csv")
    truth = dict(zip(day.names, day.chi[[day.names.index(name) for name in day.names]], strict=True))
    assert set(truth) == {row["name"] for row in data["parameters"]}
    friction = next(row for row in data["parameters"] if row["name"].startswith("Fc"))
    assert friction["sigma"] > 0.0
    for row in data["parameters"]:
        away = row["value"] - row["model"]
        assert np.sign(away) == np.sign(row["drift_sigmas"])


def test_cycles_without_a_plan_are_found_and_cut(tmp_path, day, cycles, capsys):
    write_campaign(tmp_path, day, "cycle_s = 5.0")
    (tmp_path / "live.csv").write_text(text(day, cycles))
    code, data, _ = watch(capsys, tmp_path, tmp_path / "live.csv")
    assert code == 1
    assert data["cycles"] >= 27
    alarm = data["new_alarms"][0]
    assert alarm["at_s"] <= STEP_AT * CYCLE_S + 1.0 < alarm["at_s"] + 2.0 * CYCLE_S
    assert data["new_alarms"][1]["confirmed"][0]["change"]["δM"] == pytest.approx(0.5, abs=0.05)


def test_a_folder_of_logs_is_taken_in_order_and_each_once(cell, day, cycles, capsys):
    logs = cell / "logs"
    logs.mkdir()
    for k in range(6):
        name = f"{'zyxwvu'[k]}.csv"  # by time, not by name
        (logs / name).write_text(text(day, cycles[5 * k : 5 * k + 5], t=0.0))
        os.utime(logs / name, (1e9 + 30.0 * (k + 1), 1e9 + 30.0 * (k + 1)))
    code, data, told = watch(capsys, cell)
    assert data["cycles"] == 30
    assert code == 1
    assert [alarm["cycle"] for alarm in data["new_alarms"]] == [STEP_AT + 1, STEP_AT + 2]
    assert data["new_alarms"][0]["log"] == "u.csv"
    assert "ALARM" in told[0]
    _, data, _ = watch(capsys, cell)
    assert data["new_cycles"] == 0
    (logs / "new.csv").write_text(text(day, cycles[:3]))
    (logs / "simulated.json").write_text("{}")
    (logs / "bad.csv").write_text("t,q1\n1,2\n2,x\n3,4\n")
    code, data, told = watch(capsys, cell)
    assert data["new_cycles"] == 3
    assert code == 1
    assert len(data["problems"]) == 1
    assert "bad.csv" in told[0] or "bad.csv" in told[1]


def test_a_log_that_still_changes_is_left_alone(tmp_path):
    (tmp_path / "a.csv").write_text("1")
    taken = set()
    ready, growing = new_logs(tmp_path, taken, {})
    assert not ready
    (tmp_path / "a.csv").write_text("12")
    ready, growing = new_logs(tmp_path, taken, growing)
    assert not ready
    ready, growing = new_logs(tmp_path, taken, growing)
    assert [path.name for path in ready] == ["a.csv"]
    taken.add("gone.csv 1 1")
    new_logs(tmp_path, taken, growing)
    assert not taken  # what has left the folder is forgotten


def test_rotation_and_gaps(cell, day, cycles, capsys):
    log = cell / "live.csv"
    log.write_text(text(day, cycles[:3]))
    watch(capsys, cell, log)
    log.write_text(text(day, cycles[3:5], t=100.0))
    _, data, told = watch(capsys, cell, log)
    assert "begins anew" in told[0]
    assert data["cycles"] == 3
    with log.open("a") as file:
        file.write(text(day, cycles[5:8], t=500.0, heading=False))
    _, data, told = watch(capsys, cell, log)
    assert any("samples are missing before 500.000 s" in sentence for sentence in told)
    assert data["cycles"] == 5
    assert not data["problems"]


def test_a_bad_row_costs_its_cycle_and_is_reported(cell, day, cycles, capsys):
    log = cell / "live.csv"
    lines = text(day, cycles[:6]).splitlines(keepends=True)
    row = 1 + int(2.5 * CYCLE_S * LOG_HZ)
    lines[row] = lines[row].replace(",", ",oops", 1)
    log.write_text("".join(lines))
    code, data, _ = watch(capsys, cell, log)
    assert code == 1
    assert f"row {row + 1}:" in data["problems"][0]
    assert "oops" in data["problems"][0]
    assert "excitor-" not in data["problems"][0]  # no temporary file's name
    assert data["cycles"] == 2 + 2  # the cycles after it are found again, the last one is not whole


def test_a_different_motion_is_left_out(cell, day, cycles, capsys):
    odd = [(q[::-1], tau[::-1]) for q, tau in cycles[2:3]]
    odd += [(np.repeat(q[-1:], 222, axis=0), np.repeat(tau[-1:], 222, axis=0)) for q, tau in odd]  # it stands, too
    (cell / "live.csv").write_text(text(day, [*cycles[:2], *odd, *cycles[3:6]]))
    _, data, _ = watch(capsys, cell, cell / "live.csv")
    assert (data["cycles"], data["left_out"]) == (4, 1)  # the motion is found again, out of the plan's step


def test_json_lines(cell, day, cycles, capsys):
    (cell / "live.csv").write_text(text(day, cycles[:4]))
    assert run_watch(cell, cell / "live.csv", once=True, lines=True, as_json=True, tell=lambda _: None) == 0
    *each, last = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [entry["cycle"] for entry in each] == [1, 2, 3]
    assert each[0]["learning"]
    assert last["cycles"] == 3


def test_people_see_a_table(cell, day, cycles, capsys):
    (cell / "live.csv").write_text(text(day, cycles[:4]))
    run_watch(cell, cell / "live.csv", once=True, tell=lambda _: None)
    shown = capsys.readouterr().out
    assert "3 cycles, 0 alarms" in shown
    assert "still learning" in shown
    assert day.names[0] in shown


def test_interrupting_ends_with_a_summary(cell, day, cycles, capsys):
    (cell / "live.csv").write_text(text(day, cycles[:4]))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background are deaf to it
    try:
        threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        begun = time.monotonic()
        assert run_watch(cell, cell / "live.csv", interval=0.05, tell=lambda _: None) == 0
        assert time.monotonic() - begun < 20.0
    finally:
        signal.signal(signal.SIGINT, before)
    assert "3 cycles" in capsys.readouterr().out


def test_a_changed_model_begins_anew(cell, day, cycles, capsys):
    (cell / "live.csv").write_text(text(day, cycles[:4]))
    watch(capsys, cell, cell / "live.csv")
    model = json.loads((cell / "model.json").read_text())
    model["parameters"][0]["value"] *= 1.01
    (cell / "model.json").write_text(json.dumps(model))
    _, data, told = watch(capsys, cell, cell / "live.csv")
    assert "learned anew" in told[0]
    assert data["cycles"] == 3


def test_bad_input_is_reported_in_sentences(cell, day, cycles, capsys):
    with pytest.raises(ExcitorError, match="does not exist; name a log"):
        run_watch(cell)
    (cell / "logs" / "ros2").mkdir(parents=True)
    with pytest.raises(ExcitorError, match=r"holds folders only \(ros2\).*--log .*ros2"):
        run_watch(cell)
    with pytest.raises(ExcitorError, match="does not exist; name one that is there"):
        run_watch(cell, cell / "nowhere.csv")
    with pytest.raises(ExcitorError, match="interval is 0 s"):
        run_watch(cell, interval=0.0)
    log = cell / "live.csv"
    log.write_text("a,b\n" + "1,2\n" * 30)
    with pytest.raises(InvalidLog, match=r"live\.csv: has no column"):
        run_watch(cell, log, once=True)
    log.write_text(text(day, cycles[:4]))
    watch(capsys, cell, log)
    state = json.loads((cell / "watch.json").read_text())
    alarmed = json.dumps(state | {"alarms": [{"cycle": 1, "alarms": [], "confirmed": [{}]}]})
    state["estimate"]["d"][0] = -1.0
    for damaged in (json.dumps(state), alarmed, "{", '{"schema": 1, "x": 1}', '{"schema": 9}'):
        (cell / "watch.json").write_text(damaged)
        if '"x"' not in damaged:
            with pytest.raises(ExcitorError, match=r"watch\.json"):
                run_watch(cell, log, once=True)
    (cell / "watch.json").unlink()
    campaign = (cell / "campaign.toml").read_text()
    (cell / "campaign.toml").write_text(campaign.replace(f"period_s = {CYCLE_S}", ""))
    with pytest.raises(ExcitorError, match="the end of its cycles is unknown"):
        run_watch(cell, log, once=True)
    (cell / "model.json").unlink()
    with pytest.raises(ExcitorError, match=r"model\.json: is missing"):
        run_watch(cell, log, once=True)


def test_a_growing_log_is_read_by_offset(cell, day, cycles):
    log = cell / "live.csv"
    whole = text(day, cycles[:1])
    campaign = open_campaign(cell)
    declared = campaign.content.log
    log.write_text(whole[:2])
    assert read_on(log, Place(), campaign.robot, declared) is None  # not even the headings
    log.write_text(whole[: len(whole) // 2])
    piece = read_on(log, Place(), campaign.robot, declared)
    assert whole.encode()[: piece.after.offset].endswith(b"\n")
    assert piece.after.row == whole.encode()[: piece.after.offset].count(b"\n")
    assert not moved(log, piece.after)
    log.write_text(whole)
    rest = read_on(log, piece.after, campaign.robot, declared)
    np.testing.assert_allclose(np.concatenate([piece.q, rest.q]), cycles[0][0], atol=1e-7)
    assert rest.t[0] == pytest.approx(piece.t[-1] + 1.0 / LOG_HZ)
    log.write_text(whole.replace("0.0000000", "0.5000000", 1))
    assert moved(log, rest.after)


def test_planned_cycles_do_not_creep():
    """A rate that is off by a little must not shift the cut over a day: time cuts, not counting."""
    cutter = Cutter(2.0, 0.0, 5)
    rate = 100.02
    t = np.arange(200_000) / rate
    q = np.sin(np.pi * t)[:, None]
    begins = []
    for first in range(0, len(t), 10_000):
        part = slice(first, first + 10_000)
        add(cutter, t[part], q[part], q[part], 100.0, name="log")
        begins += [cycle.t for cycle in cut(cutter)]
        assert cutter.waiting < 400
    assert len(begins) == 999
    np.testing.assert_allclose(begins, 2.0 * np.arange(999), atol=0.5 / rate + 1e-9)


@pytest.mark.slow
def test_memory_does_not_grow(cell, day, cycles):
    log = cell / "live.csv"
    peaks = []
    for n in (60, 60, 240):
        with log.open("w") as file:
            file.write(log_heading(day.robot))
            for k in range(n):
                file.write(log_lines(k * CYCLE_S, *cycles[k % 20]))
        source = open_source(open_campaign(cell), log, {})
        tracemalloc.start()
        count = sum(len(batch.cycles) for batch in source.news())
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert count == n - 1
    assert peaks[2] < 1.1 * peaks[1]


def spoilt(day, cycles, rows, column=1, word="nan"):
    lines = text(day, cycles).splitlines(keepends=True)
    for row in rows:
        entries = lines[row - 1].split(",")
        entries[column] = word
        lines[row - 1] = ",".join(entries)
    return "".join(lines)


def test_many_bad_rows_are_reported_in_few_sentences(cell, day, cycles, capsys):
    """A channel that dies for seconds, or for good, must not cost a sentence and a read for each of its rows."""
    per = int(CYCLE_S * LOG_HZ)
    (cell / "live.csv").write_text(spoilt(day, cycles[:8], range(2 * per + 7, 2 * per + 300)))
    code, data, _ = watch(capsys, cell, cell / "live.csv")
    assert code == 1
    assert 2 <= len(data["problems"]) <= 10
    assert f"row {2 * per + 7}: " in data["problems"][0]
    assert ", up to row " in data["problems"][-1]
    assert data["cycles"] == 2 + 4
    (cell / "watch.json").unlink()
    (cell / "live.csv").write_text(spoilt(day, cycles[:8], range(4 * per + 100, 8 * per)))
    _, data, _ = watch(capsys, cell, cell / "live.csv")
    assert len(data["problems"]) <= 14
    assert data["cycles"] == 4


def test_a_bad_row_after_a_few_good_ones_is_reported_once(cell, day, cycles, capsys):
    (cell / "live.csv").write_text(spoilt(day, cycles[:3], [700, 705]))
    _, data, _ = watch(capsys, cell, cell / "live.csv")
    assert [problem.split("row ")[1].split(":")[0] for problem in data["problems"]] == ["700", "705"]


def test_a_robot_that_stands_at_first_is_waited_for(cell, day, cycles, capsys):
    """No cycle yet is nothing wrong; and what begins in the middle of a cut is not the motion to look for."""
    q, tau = cycles[0]
    stands = np.repeat(q[:1], 1500, axis=0), np.repeat(tau[:1], 1500, axis=0)
    (cell / "live.csv").write_text(text(day, [stands, *cycles[:8]]))
    code, data, _ = watch(capsys, cell, cell / "live.csv")
    assert (code, data["problems"]) == (0, [])
    assert data["cycles"] >= 7
    (cell / "watch.json").unlink()
    (cell / "live.csv").write_text(text(day, [stands]))
    code, data, told = watch(capsys, cell, cell / "live.csv")
    assert (code, data["cycles"], data["left_out"]) == (0, 0, 2)
    assert "no whole cycle yet" in told[-1]


def test_where_no_period_is_planned_a_standing_robot_is_waited_for(tmp_path, day, cycles, capsys):
    write_campaign(tmp_path, day, "cycle_s = 5.0")
    q, tau = cycles[0]
    stands = np.repeat(q[:1], 32_000, axis=0), np.repeat(tau[:1], 32_000, axis=0)
    (tmp_path / "live.csv").write_text(text(day, [stands, *cycles[:10]]))
    code, data, _ = watch(capsys, tmp_path, tmp_path / "live.csv")
    assert code == 0
    assert data["cycles"] >= 3


@pytest.mark.parametrize("wrong", ["dead", "sign", "degrees"])
def test_what_the_model_does_not_explain_is_not_silently_healthy(cell, day, cycles, capsys, wrong):
    changed = [
        (np.degrees(q) if wrong == "degrees" else q, tau * {"dead": 0.0, "sign": -1.0}.get(wrong, 1.0))
        for q, tau in cycles[:4]
    ]
    (cell / "live.csv").write_text(text(day, changed))
    code, data, _ = watch(capsys, cell, cell / "live.csv")
    assert code == 1
    (problem,) = data["problems"]
    assert "worse than no model would" in problem
    assert day.robot.joint_names[1] in problem
    (cell / "watch.json").unlink()
    (cell / "live.csv").write_text(text(day, cycles[26:30]))  # a load that nobody told of is no other robot
    assert watch(capsys, cell, cell / "live.csv")[0] == 0


def test_a_cycle_that_cannot_be_used_does_not_end_the_watch(cell, day, cycles, capsys, monkeypatch):
    def refuse(session, samples, *, t, **rest):
        if t == CYCLE_S:
            raise InvalidLog("live.csv", "a cycle at 6 s cannot be processed")
        return take(session, samples, t=t, **rest)

    take = command.take
    monkeypatch.setattr(command, "take", refuse)
    (cell / "live.csv").write_text(text(day, cycles[:5]))
    code, data, _ = watch(capsys, cell, cell / "live.csv")
    assert (code, data["cycles"]) == (1, 3)
    assert data["problems"] == ["live.csv: a cycle at 6 s cannot be processed"]


def test_names_with_brackets_are_shown(cell, day, cycles, capsys):
    """Brackets are markup to what draws the table, and an end without a beginning is an error to it."""
    (cell / "live.csv").write_text(text(day, cycles[:3]))
    basis = open_basis(open_campaign(cell))
    session = begin_session(replace(basis, model=replace(basis.model, robot_name="[/red] arm [bold]")))
    session.left_out = 3
    print_summary(session)
    session.cycles = 1
    print_summary(session)
    shown = capsys.readouterr().out
    assert "[/red] arm [bold]: 1 cycles" in shown
    assert "3 of another motion were left out" in shown
    assert shown.count("3 of another motion") == 2


def test_a_watch_that_sees_nothing_states_it(cell, day, cycles, capsys):
    q, tau = cycles[0]
    pieces = [cycles[:3], [(q[::-1], tau[::-1])] * 2, [(q[::-1], tau[::-1])] * 22, cycles[3:6]]
    source, said, seen, t = None, [], 0, 0.0
    for piece in pieces:
        with (cell / "live.csv").open("a") as file:
            file.write(text(day, piece, t=t, heading=source is None))
        t += len(piece) * CYCLE_S
        source = source or open_source(open_campaign(cell), cell / "live.csv", {})
        for batch in source.news():
            said += batch.notes
            seen += len(batch.cycles)
    assert seen == 3 + 2  # the last one lacks the samples after it
    assert len(said) == 1
    assert "has not come for 2" in said[0]


def test_a_log_that_goes_away_meanwhile_is_waited_for(cell, day, cycles, monkeypatch):
    """Rotation moves a log between two looks, or between looking and opening."""
    log = cell / "live.csv"
    log.write_text(text(day, cycles[:2]))
    campaign = open_campaign(cell)
    growing = open_source(campaign, log, {})
    log.unlink()
    assert not list(growing.news())
    (cell / "logs").mkdir()
    (cell / "logs" / "a.csv").write_text(text(day, cycles[:2]))
    appearing = open_source(campaign, None, {})
    assert not list(appearing.news())
    monkeypatch.setattr("excitor.experiments.watch.sources.mark_of", lambda path: (_ for _ in ()).throw(
        FileNotFoundError(path)))  # fmt: skip
    assert not list(appearing.news())


def test_a_log_that_changes_its_meaning_is_suspected(cell, day, cycles, capsys):
    """Another unit of torque: whatever load comes out nearest, it is not the load."""
    changed = [(q, tau * 8.8507) for q, tau in cycles[22:26]]  # pounds and inches
    (cell / "live.csv").write_text(text(day, [*cycles[:22], *changed]))
    _, _, told = watch(capsys, cell, cell / "live.csv")
    assert "whether the log is still this robot's" in told[0]
    (cell / "watch.json").unlink()
    (cell / "live.csv").write_text(text(day, cycles))
    _, _, told = watch(capsys, cell, cell / "live.csv")
    assert "whether the log is still" not in told[0]


def test_logs_of_one_cycle_each_are_held_against_the_first(cell, day, cycles, capsys):
    (cell / "logs").mkdir()
    odd = [(q[::-1], tau[::-1]) for q, tau in cycles[2:3]]
    for k, cycle in enumerate([*cycles[:2], *odd, cycles[3]]):
        path = cell / "logs" / f"{k}.csv"
        path.write_text(text(day, [cycle]))
        os.utime(path, (1e9 + 10.0 * k, 1e9 + 10.0 * k))
    _, data, told = watch(capsys, cell)
    assert (data["cycles"], data["left_out"]) == (3, 1)
    assert told == ["2.csv holds no whole cycle of the motion that is watched"]
