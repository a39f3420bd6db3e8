"""The command line as a user meets it: what it prints, how it exits, what it imports."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import excitor as ex
from excitor.experiments.cli import app, main

HEAVY = ("cvxpy", "pymoo", "sympy", "numba", "plotly", "scipy", "numpy", "pandas", "matplotlib")


def run(*arguments):
    return CliRunner().invoke(app, list(arguments), catch_exceptions=True)


def run_main(monkeypatch, capsys, *arguments):
    """Run as the installed command does, with its handling of errors."""
    monkeypatch.setattr(sys, "argv", ["excitor", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    return stop.value.code, capsys.readouterr()


def test_help_imports_nothing_heavy():
    code = (
        "import sys\nsys.argv = ['excitor', '--help']\n"
        "from excitor.experiments.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        f"loaded = [name for name in {HEAVY!r} if name in sys.modules]\n"
        "print(loaded, file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    assert "excitor robots tx40" in done.stdout


def test_every_verbs_help_shows_an_example_on_lines_of_its_own():
    for verb in sorted(app_verbs()):
        help_text = run(verb, "--help").stdout
        assert re.search(rf"^ *(Example: )?excitor {verb}\b", help_text, re.MULTILINE), verb
        assert "\\b" not in help_text, verb


def app_verbs():
    return set(typer.main.get_command(app).commands)


def test_version():
    from importlib.metadata import version

    assert run("--version").stdout.strip() == f"excitor {version('excitor')}"


def test_robots_lists_the_catalogue():
    out = run("robots").stdout
    for name in ("tx40", "qrc350", "kr150", "rotradi", "ur10", "iiwa"):
        assert name in out
    assert {row["name"] for row in json.loads(run("robots", "--json").stdout)["robots"]} >= {"tx40", "ur10"}


def test_robot_page_for_scripts():
    result = run("robots", "tx40", "--json")
    assert result.exit_code == 0
    data = json.loads(result.stdout)
    assert len(data["joints"]) == 6
    assert data["joints"][0] == {"name": "j1", "kind": "revolute", "unit": "rad", "locked": None}
    assert data["limits"]["velocity"][5] == pytest.approx(12.217305, abs=1e-6)
    base = {entry["name"]: entry for entry in data["base_parameters"]}
    assert len(base) == 60
    assert base["ZZ1R"]["regrouping"] == "ZZ1 + Ia1 + YY2 + YY3 + 0.07 MZ3 + 0.05185 (M3 + M4 + M5 + M6)"
    assert base["ZZ1R"]["closed_form"].endswith("2 r3 MZ3 + (d3^2 + r3^2) (M3 + M4 + M5 + M6)")
    assert base["MX2R"]["terms"]["M4"] == pytest.approx(0.225)
    assert "XX1" in data["unidentifiable"]


def test_robot_page_for_people():
    out = run("robots", "tx40").stdout
    for words in ("Stäubli TX-40", "60 base parameters", "287 °/s", "--parameters"):
        assert words in out
    assert "ZZ1R" not in out
    out = run("robots", "tx40", "--parameters").stdout
    assert "ZZ1R" in out
    assert "Unidentifiable" in out


def test_locked_joints_lose_parameters():
    """With joints 1 to 5 locked only what joint 6 feels remains, and ZZ6 cannot be told from its rotor's inertia."""
    names = [f"--lock=j{k}" for k in range(1, 6)]
    data = json.loads(run("robots", "tx40", *names, "--json").stdout)
    assert set(data["locked"]["lost"]) >= {"ZZ1R", "MX2R", "Fv1", "off5", "ZZ5R", "ZZ6", "Ia6"}
    assert not {"MX6", "MY6", "off6"} & set(data["locked"]["lost"])


def test_unknown_lock_is_a_sentence(monkeypatch, capsys):
    code, printed = run_main(monkeypatch, capsys, "robots", "tx40", "--lock", "axis9")
    assert code == 1
    assert "--lock axis9: no joint has that name" in printed.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["robots", "tx4O"], "is not a robot of the catalogue"),
        (["robots", "nowhere.toml"], "does not exist"),
        (["robots", "tx40", "--equations"], "closed forms of more than 4"),
        (["robots", "rotradi", "--export", "c", "--out", "/nowhere/at/all.c"], "cannot be written"),
    ],
)
def test_bad_calls_are_sentences(monkeypatch, capsys, arguments, words):
    code, printed = run_main(monkeypatch, capsys, *arguments)
    assert code == 1
    assert words in printed.err
    assert printed.out == ""
    assert "Traceback" not in printed.err


def test_errors_are_json_where_requested(monkeypatch, capsys):
    code, printed = run_main(monkeypatch, capsys, "robots", "tx4O", "--json")
    assert code == 1
    assert "is not a robot of the catalogue" in json.loads(printed.out)["error"][0]


@pytest.mark.parametrize(
    "arguments",
    [
        ["robots", "--no-such-option"],
        ["robots", "tx40", "--export", "cobol"],
        ["robots", "tx40", "--export", "c", "--counts"],
        ["robots", "tx40", "--export", "c", "--lock", "j1"],
        ["robots", "tx40", "--out", "x.c"],
        ["robots", "--lock", "j1"],
        ["bench", "nothing"],
    ],
)
def test_wrong_usage_exits_2(monkeypatch, capsys, arguments):
    assert run_main(monkeypatch, capsys, *arguments)[0] == 2


def test_out_never_overwrites_the_robot_itself(monkeypatch, capsys, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('name = "mine"\n[[joint]]\nname = "j"\nmdh = {}\n')
    assert run_main(monkeypatch, capsys, "robots", str(path), "--export", "c", "--out", str(path))[0] == 2
    assert path.read_text().startswith("name")


def test_code_says_what_it_takes_as_zero(monkeypatch, capsys, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(
        'name = "mine"\n[[joint]]\nname = "j"\nmdh = {}\nlink = { mass = 1, center = [0.1, 0, 0], '
        'inertia = [0.01, 0, 0, 0.01, 0, 0.01] }\n[friction]\nterms = ["viscous"]\n'
    )
    result = run("robots", str(path), "--export", "c")
    assert "taken as 0 because the file does not give them: Fv1" in result.stderr
    assert "Taken as 0 because the robot file does not give them: Fv1" in result.stdout


def test_no_code_of_an_impossible_robot(monkeypatch, capsys, tmp_path):
    path = tmp_path / "ghost.toml"
    path.write_text(
        'name = "ghost"\n[[joint]]\nname = "j"\nmdh = {}\nlink = { mass = 1.0, inertia = [1, 0, 0, 0.1, 0, 0.1] }\n'
    )
    code, printed = run_main(monkeypatch, capsys, "robots", str(path), "--export", "c")
    assert code == 1
    assert "no model is written of a robot that cannot be right" in printed.err


def test_written_files_can_be_read_by_others(tmp_path):
    import os
    import stat

    target = tmp_path / "x.c"
    run("robots", "rotradi", "--export", "c", "--out", str(target))
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(target.stat().st_mode) == 0o666 & ~umask


def test_export_writes_the_file(tmp_path):
    target = tmp_path / "rotradi.c"
    result = run("robots", "rotradi", "--export", "c", "--out", str(target))
    assert result.exit_code == 0
    assert "void rotradi_inverse_dynamics" in target.read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["rotradi.c"], "no temporary file is left behind"


def test_equations_of_a_small_arm():
    out = run("robots", "rotradi", "--equations").stdout
    assert "M11 = " in out
    assert "g2 = MX2R*g*sin(q2)" in out
    assert "MX2R = MX2 + 0.45 M3" in out
    assert "kinetic energy = M11*dq1**2/2 + M12*dq1*dq2" in out


def test_equations_of_an_identified_arm_have_its_numbers(tmp_path):
    robot = ex.load_robot("rotradi")
    t, w = np.arange(0.0, 20.0, 0.01)[:, None], np.array([0.9, 1.7, 2.6])
    motion = ex.Motion(np.sin(w * t), w * np.cos(w * t), -(w**2) * np.sin(w * t))
    tau = ex.inverse_dynamics(robot, motion) + 0.01 * np.random.default_rng(0).normal(size=motion.q.shape)
    ex.fit(ex.Samples("run", motion, tau, 100.0, robot=robot), consistent=False).save(tmp_path / "model.json")
    out = run("robots", str(tmp_path / "model.json"), "--equations").stdout
    assert "ZZ1R*" in out or "+ ZZ1R" in out
    assert re.search(r"^ZZ1R = 3\.2\d+ ± 0\.00\d+ kg m2$", out, re.MULTILINE)
    assert re.search(r"^Fc3 = 1\.73\d* ± ", out, re.MULTILINE)


def test_counts_show_that_the_energy_model_is_smaller():
    data = json.loads(run("robots", "tx40", "--counts", "--json").stdout)
    total = {key: data[key]["additions"] + data[key]["multiplications"] for key in ("regressor", "energy", "power")}
    assert total["energy"] < total["power"] < total["regressor"]


def test_a_robot_with_errors_exits_1(tmp_path):
    path = tmp_path / "ghost.toml"
    path.write_text(
        'name = "ghost"\n[[joint]]\nname = "j"\nmdh = {}\nlink = { mass = 1.0, inertia = [1, 0, 0, 0.1, 0, 0.1] }\n'
    )
    result = run("robots", str(path), "--json")
    assert result.exit_code == 1
    assert any(finding["level"] == "error" for finding in json.loads(result.stdout)["findings"])


def test_first_lines_of_verbs_fit_80_columns_and_verbs_complete():
    lines = run("--help").stdout.partition("Commands:")[2].splitlines()
    assert not [line for line in lines if line.endswith("...")]
    asked = {"_EXCITOR_COMPLETE": "complete_bash", "COMP_WORDS": "excitor ide", "COMP_CWORD": "1"}
    assert CliRunner().invoke(app, [], env=asked, prog_name="excitor").stdout.split() == ["identify"]


@pytest.mark.slow
def test_the_demo_goes_from_a_plan_to_a_report(tmp_path):
    data = json.loads(run("demo", str(tmp_path / "demo"), "--json").stdout)
    assert data["demo"] == "demo"
    figures = {figure["name"]: figure for figure in data["figures"]}
    for name in ("base_parameters", "certified", "heldout_error"):
        assert figures[f"demo.{name}"]["holds"] is True, name
    assert figures["demo.noise_floor"]["ours"] > 0.0
    assert figures["demo.regressor_ratio"]["ours"] > 1.0
    pages = [Path(page) for page in data["context"]["pages"]]
    assert [page.name for page in pages] == ["plan.html", "README.md", "report.html"]
    assert all(page.is_file() for page in pages)
    status = json.loads(run("status", str(tmp_path / "demo"), "--json").stdout)
    assert {stage["state"] for stage in status["stages"] if stage["name"] != "report.json"} == {"up to date"}


def test_export_gives_on_what_it_was_asked_and_tells_what_was_written(monkeypatch, tmp_path):
    """Each option reaches the function that exports, and what that answers is told, for people and for scripts."""
    from excitor.experiments.export import export as exports

    asked = []

    def written(folder, formats, options):
        asked.append((folder, formats, options))
        return [exports.ExportFile("kuka", "load.dat", b"x", ("a note",))], ["a doubt"]

    offered = [exports.ExportFile("py", "model.py"), exports.ExportFile("ur", refused="no load")]
    monkeypatch.setattr(exports, "export", written)
    monkeypatch.setattr(exports, "offers", lambda folder, options: offered)
    folder = str(tmp_path)
    given = ("--flange", "f", "--from-link", "l", "--point-mass", "--allow", "do-not-use", "--with-tool", "--out", "o")
    done = run("export", folder, "--format", "kuka", *given)
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines() == ["wrote load.dat", "  a note"]
    assert "note: a doubt" in done.stderr
    _, formats, options = asked[0]
    assert formats == ["kuka"]
    assert (options.load.from_link, options.load.flange, options.load.point) == ("l", "f", True)
    assert (options.allow, options.with_tool, options.out) == (("do-not-use",), True, Path("o"))
    told = json.loads(run("export", folder, "--format", "kuka", "--json").stdout)
    assert told == {"written": [{"format": "kuka", "file": "load.dat", "notes": ["a note"]}], "doubts": ["a doubt"]}
    assert (asked[1][2].allow, asked[1][2].load.point, asked[1][2].mjcf) == ((), False, None)
    assert run("export", folder).stdout.splitlines() == ["py       model.py", "ur       cannot be written: no load"]
    formats = json.loads(run("export", folder, "--json").stdout)["formats"]
    assert [(one["file"], one["refused"]) for one in formats] == [("model.py", None), (None, "no load")]
    assert len(asked) == 2


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--allow", "anything"), "'anything' is not do-not-use"),
        (("--format", "kuke"), "'kuke' is not one of"),
        (("--format", "urdf", "--point-mass"), "--point-mass goes with --format kuka or abb or fanuc or ur"),
        (("--format", "kuka", "--mjcf", "a.xml"), "--mjcf goes with --format mjcf"),
    ],
)
def test_export_refuses_options_that_do_not_fit(tmp_path, given, said):
    done = run("export", str(tmp_path), *given)
    assert done.exit_code == 2
    assert said in " ".join(re.sub(r"[│╭╮╰╯─]", " ", done.output).split())
