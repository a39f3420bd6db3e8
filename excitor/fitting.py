"""Models in memory: fit samples, validate, compare estimators, export; read and write model.json."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from excitor.experiments import compare as _comparing
from excitor.experiments import identification as _stage
from excitor.experiments.campaign import Campaign as CampaignFile
from excitor.experiments.campaign import Identification, Processing, open_campaign
from excitor.experiments.campaign import Run as RunOfLog
from excitor.experiments.export.export import export_of
from excitor.experiments.files import write_atomically, write_bytes_atomically
from excitor.experiments.model import FILE, read_model, read_model_json
from excitor.identify import validate as _validating
from excitor.identify.diagnose import usable
from excitor.identify.methods import METHODS, Method, method_of
from excitor.identify.regression import dynamic_regression
from excitor.identify.samples import Samples
from excitor.physics import motion_of
from excitor.problem import in_memory
from excitor.robots.arrays import FloatArray
from excitor.robots.dynamics import inverse_dynamics as _inverse_dynamics
from excitor.robots.errors import ExcitorError
from excitor.robots.load import catalog_names, load
from excitor.robots.parameters import layout
from excitor.robots.robot import Robot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

LEARNED = "wls"


@dataclass(frozen=True, eq=False)
class Model:
    """An identified model: base parameters with their intervals, and physically consistent parameters."""

    robot: Robot
    data: Mapping[str, Any]  # as model.json has it
    trained_on: tuple[str, ...] = ()  # names of the samples it was fitted to
    folder: Path | None = None  # where it was read

    @property
    def names(self) -> tuple[str, ...]:
        """Name the base parameters."""
        return tuple(str(entry["name"]) for entry in self.data["parameters"])

    @property
    def values(self) -> FloatArray:
        """Values of the base parameters, (n_base,)."""
        return np.array([entry["value"] for entry in self.data["parameters"]])

    @property
    def chi(self) -> FloatArray:
        """The base parameters on the robot, (n_params,): 0 for what regrouped."""
        return _placed(self.robot, self.data["parameters"])

    def consistent(self) -> FloatArray:
        """Physically consistent parameters, (n_params,); ExcitorError where there are none."""
        standard = self.data["standard"]
        if "parameters" not in standard:
            raise ExcitorError(f"{self.robot.name}: no physically consistent model ({standard.get('reason', '')})")
        return _placed(self.robot, standard["parameters"])

    @property
    def error(self) -> float:
        """‖τ - τ̂‖ / ‖τ‖ over all joints: held out where there were unseen samples, else of training."""
        held_out, training = self.data["held_out"], self.data["training"]
        if held_out is not None:
            return float(held_out["figures"]["held_out_relative_error"])
        return float(training["figures"]["training_relative_error"])

    def torque(self, q: ArrayLike, dq: ArrayLike, ddq: ArrayLike) -> FloatArray:
        """Torques of the consistent model, or of the base parameters where there is none, (n_samples, n_joints)."""
        chi = self.consistent() if "parameters" in self.data["standard"] else self.chi
        return _inverse_dynamics(self.robot, motion_of(self.robot, q, dq, ddq), chi)

    def to_frame(self) -> "DataFrame":
        """Write the base parameters as a pandas DataFrame: name, value, sigma, low, high, unit, regrouping."""
        import pandas as pd

        rows = [
            {
                "name": entry["name"],
                "value": entry["value"],
                "sigma": entry["sigma"],
                "low": entry["interval"][0],
                "high": entry["interval"][1],
                "unit": entry["unit"],
                "regrouping": entry["regrouping"],
            }
            for entry in self.data["parameters"]
        ]
        return pd.DataFrame(rows)

    def to_latex(self) -> str:
        """Write the base parameters as a LaTeX table (package booktabs)."""
        lines = [r"\begin{tabular}{lrrl}", r"\toprule", r"parameter & value & 95\,\% interval & unit \\", r"\midrule"]
        for entry in self.data["parameters"]:
            low, high = entry["interval"]
            name = str(entry["name"]).replace("_", r"\_").replace("#", r"\#").replace("%", r"\%").replace("&", r"\&")
            unit = " ".join(rf"$\mathrm{{{part[:-1]}}}^{part[-1]}$" if part[-1:].isdigit() else part
                            for part in str(entry["unit"]).split())  # fmt: skip
            lines.append(rf"{name} & {entry['value']:.5g} & [{low:.4g}, {high:.4g}] & {unit} \\")
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the base parameters with their intervals, each divided by the size of its value."""
        from excitor.solution import new_axes

        axes = new_axes(ax)
        values = self.values
        size = np.where(values == 0.0, 1.0, np.abs(values))
        low, high = np.array([entry["interval"] for entry in self.data["parameters"]]).T
        places = np.arange(len(values))
        axes.errorbar(places, values / size, yerr=[(values - low) / size, (high - values) / size], fmt="o", capsize=3)
        axes.set_xticks(places, self.names, rotation=90)
        axes.set_ylabel("value and 95 % interval, relative")
        return axes

    def save(self, path: str | PathLike[str]) -> Path:
        """Write model.json: into a folder, or as a file whose name ends in .json."""
        place = Path(path)
        place = place if place.suffix == ".json" else place / FILE
        place.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(place, json.dumps(self.data, indent=2, allow_nan=False) + "\n")
        return place

    def __repr__(self) -> str:
        whole = "consistent" if "parameters" in self.data["standard"] else "not consistent"
        kind = "held-out" if self.data["held_out"] is not None else "training"
        return (
            f"<Model of {self.robot.name} by {self.data['method']}: {len(self.names)} base parameters, {whole}, "
            f"{kind} torque error {100 * self.error:.2g} %>"
        )


def load_model(path: str | PathLike[str], robot: Robot | None = None) -> Model:
    """Read a model.

    Args:
        path: model.json, or the folder of a campaign that holds one.
        robot: that it is of; by default that of the campaign beside it, or of the catalogue.

    >>> import excitor as ex
    >>> ex.load_model("no-such-folder")
    Traceback (most recent call last):
    excitor.robots.errors.ExcitorError: ...
    """
    place = Path(path)
    place = place if place.suffix == ".json" else place / FILE
    data = read_model_json(place)
    if data.get("task") == "payload":
        raise ExcitorError(f"{place}: is of what the robot carries; the arm's model is in the campaign of its prior")
    robot = robot or _robot_of(place, str(data.get("robot", "")))
    if place.name == FILE:
        read_model(place.parent, robot)  # every parameter is checked
    return Model(robot, data, folder=place.parent)


def fit(
    samples: Samples | Sequence[Samples],
    robot: Robot | None = None,
    *,
    method: str = LEARNED,
    consistent: bool = True,
    unseen: Samples | Sequence[Samples] = (),
    tell: Callable[[str], None] = lambda _: None,
) -> Model:
    """Fit a model: base parameters with 95 % intervals, and physically consistent parameters.

    Args:
        samples: of one run or several, of different names.
        robot: by default the one that the samples were processed for.
        method: "wls" or another name that `excitor.estimators()` lists, registered ones included.
        consistent: whether parameters that bodies can have are fitted, too.
        unseen: samples to validate on.
        tell: called with each sentence about progress.

    UnusableData says why no honest model can be made of the data.

    >>> import numpy as np, excitor as ex
    >>> robot = ex.load_robot("rotradi")
    >>> t = np.arange(0, 20, 0.01)[:, None]
    >>> w = np.array([0.9, 1.7, 2.6])
    >>> q, dq, ddq = np.sin(w * t), w * np.cos(w * t), -(w**2) * np.sin(w * t)
    >>> tau = ex.inverse_dynamics(robot, q, dq, ddq) + 0.05 * np.random.default_rng(0).normal(size=q.shape)
    >>> model = ex.fit(ex.Samples("run", ex.Motion(q, dq, ddq), tau, 100.0, robot=robot), consistent=False)
    >>> model.error < 0.05
    True
    """
    known, others = _listed(samples), _listed(unseen)
    robot = _robot(known, robot)
    examined = _examined(robot, known, others, method, consistent)
    return Model(robot, _stage.model_data(_stage.fit_examined(examined, tell)), tuple(run.run for run in known))


def validate(model: Model, unseen: Samples | Sequence[Samples]) -> _validating.Validation:
    """Compare a model's torques with those of samples that it was not fitted to, beside the baselines.

    Args:
        model: as `fit` or `load_model` gives it.
        unseen: samples of other runs.

    The result has `model.relative_total`, errors by joint, and `baselines`: zero, gravity only, prior model.

    >>> import numpy as np, excitor as ex
    >>> robot = ex.load_robot("rotradi")
    >>> def run(name, w):
    ...     t, rng = np.arange(0, 20, 0.01)[:, None], np.random.default_rng(0)
    ...     q, dq, ddq = np.sin(w * t), w * np.cos(w * t), -(w**2) * np.sin(w * t)
    ...     tau = ex.inverse_dynamics(robot, q, dq, ddq) + 0.05 * rng.normal(size=q.shape)
    ...     return ex.Samples(name, ex.Motion(q, dq, ddq), tau, 100.0, robot=robot)
    >>> model = ex.fit(run("one", np.array([0.9, 1.7, 2.6])), consistent=False)
    >>> ex.validate(model, run("two", np.array([1.1, 1.4, 2.1]))).model.relative_total < 0.05
    True
    """
    runs = _listed(unseen)
    robot = model.robot
    regression = dynamic_regression(robot, runs, rows=replace(_rows(robot), settling=0.0))
    has_bodies = "parameters" in model.data["standard"]
    chi = model.consistent() if has_bodies else model.chi
    baselines = _validating.set_baselines(robot, runs, chi=chi, regression=regression)
    predicted = _validating.predict(robot, runs, chi=chi, regression=regression)
    return _validating.validate(regression, predicted, baselines=baselines, trained_on=model.trained_on)


@dataclass(frozen=True, eq=False)
class Comparison:
    """What every estimator makes of the same samples, judged on what none was fitted to."""

    compared: _comparing.Compared

    @property
    def recommendation(self) -> _comparing.Recommendation:
        """The method to take, and why."""
        return self.compared.recommendation

    @property
    def errors(self) -> dict[str, float]:
        """Held-out torque error ‖τ - τ̂‖ / ‖τ‖ of each method that answered."""
        return {judged.name: judged.error for judged in self.compared.judged}

    def to_frame(self) -> "DataFrame":
        """Write a row a method as a pandas DataFrame: held-out and training error, parameters, CPU time, refusal."""
        import pandas as pd

        judged = {one.name: one for one in self.compared.judged}
        rows = [
            {
                "method": answer.method,
                "held_out": judged[answer.method].error if answer.method in judged else np.nan,
                "training": judged[answer.method].training.relative_total if answer.method in judged else np.nan,
                "parameters": len(answer.estimate.names) if answer.estimate is not None else 0,
                "cpu_s": answer.cpu_s,
                "refused": answer.refused,
            }
            for answer in self.compared.answers
        ]
        return pd.DataFrame(rows)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the held-out error of each method."""
        from excitor.solution import new_axes

        axes = new_axes(ax)
        axes.barh(list(self.errors), [100.0 * error for error in self.errors.values()])
        axes.set_xlabel("held-out torque error, %")
        return axes

    def __repr__(self) -> str:
        best = self.recommendation.method or "none"
        return f"<Comparison of {len(self.compared.answers)} estimators: recommended {best}>"


def compare(
    samples: Samples | Sequence[Samples],
    robot: Robot | None = None,
    *,
    methods: Sequence[str] = (),
    unseen: Samples | Sequence[Samples] = (),
    tell: Callable[[str], None] = lambda _: None,
) -> Comparison:
    """Fit with several estimators and judge each on what none has seen.

    Args:
        samples: of one run or several, of different names.
        robot: by default the one that the samples were processed for.
        methods: names; none: all that answer fast.
        unseen: samples to judge on; without them the last third of each run is kept back.
        tell: called with each sentence about progress.

    >>> import numpy as np, excitor as ex
    >>> robot = ex.load_robot("rotradi")
    >>> t, w = np.arange(0, 20, 0.01)[:, None], np.array([0.9, 1.7, 2.6])
    >>> q, dq, ddq = np.sin(w * t), w * np.cos(w * t), -(w**2) * np.sin(w * t)
    >>> tau = ex.inverse_dynamics(robot, q, dq, ddq) + 0.05 * np.random.default_rng(0).normal(size=q.shape)
    >>> samples = ex.Samples("run", ex.Motion(q, dq, ddq), tau, 100.0, robot=robot)
    >>> sorted(ex.compare(samples, methods=["ols", "wls"]).errors)
    ['ols', 'wls']
    """
    known, others = _listed(samples), _listed(unseen)
    robot = _robot(known, robot)
    prepared = _stage.prepare_examined(_examined(robot, known, others, LEARNED, True), tell)
    return Comparison(_comparing.compare_prepared(prepared, methods, tell))


def export(
    model: Model, form: str, path: str | PathLike[str], *, source: str | PathLike[str] | None = None
) -> tuple[str, ...]:
    """Write a model for others; notes about the file are returned.

    Args:
        model: as `fit` or `load_model` gives it.
        form: "mjcf", "urdf", "py", "c", or the name of a registered export.
        path: of the file to write.
        source: MJCF or URDF of the robot, to be filled with the model.

    >>> import numpy as np, excitor as ex, tempfile, pathlib
    >>> robot = ex.load_robot("rotradi")
    >>> t, w = np.arange(0, 20, 0.01)[:, None], np.array([0.9, 1.7, 2.6])
    >>> q, dq, ddq = np.sin(w * t), w * np.cos(w * t), -(w**2) * np.sin(w * t)
    >>> tau = ex.inverse_dynamics(robot, q, dq, ddq) + 0.05 * np.random.default_rng(0).normal(size=q.shape)
    >>> model = ex.fit(ex.Samples("run", ex.Motion(q, dq, ddq), tau, 100.0, robot=robot), consistent=False)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     notes = ex.export(model, "py", pathlib.Path(folder) / "model.py")
    """
    made = export_of(form, model, None if source is None else Path(source))
    place = Path(path)
    place.parent.mkdir(parents=True, exist_ok=True)
    write_bytes_atomically(place, made.content)
    return made.notes


def estimator(name: str, title: str, solve: Callable[[FloatArray, FloatArray], FloatArray]) -> Method:
    """Make an estimator of a function; `register` makes it known.

    Args:
        name: as `fit` and campaign.toml call it.
        title: what it assumes, in a sentence.
        solve: `solve(W, y) -> beta` of the equations y = W β.

    >>> import numpy as np, excitor as ex
    >>> ex.estimator("lstsq", "Plain least squares.", lambda W, y: np.linalg.lstsq(W, y)[0]).name
    'lstsq'
    """
    return method_of(name, title, solve)


def estimators() -> tuple[str, ...]:
    """Name all estimators: built-in, registered and of installed packages.

    >>> import excitor as ex
    >>> "wls" in ex.estimators()
    True
    """
    return tuple(METHODS)


def _examined(
    robot: Robot, known: list[Samples], unseen: list[Samples], method: str, consistent: bool
) -> _stage.Examined:
    if method not in METHODS:
        raise ExcitorError(f"no estimator is called {method!r}; expected one of {', '.join(METHODS)}")
    names = [run.run for run in (*known, *unseen)]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ValueError(f"two runs are named {twice[0]!r}; name samples differently: samples(log, robot, name=...)")
    runs = [RunOfLog(name=run.run[:80], log="memory", role="identify") for run in known]
    runs += [RunOfLog(name=run.run[:80], log="memory", role="validate") for run in unseen]
    content = CampaignFile(
        robot=robot.name, run=runs, locked=[], identify=Identification(method=method, consistent=consistent)
    )
    findings = (*_stage.examine(robot, known), *_stage.doubts(_stage.examine(robot, unseen)))
    if not usable(findings):
        raise _stage.UnusableData(findings)
    samples = {run.run: run for run in (*known, *unseen)}
    return _stage.Examined(in_memory(robot, content), findings, samples, {}, known, unseen)


def _listed(samples: Samples | Sequence[Samples]) -> list[Samples]:
    runs = [samples] if isinstance(samples, Samples) else list(samples)
    for run in runs:
        if not isinstance(run, Samples):
            raise ValueError(f"samples are {type(run).__name__}, expected Samples as `excitor.samples` gives them")
    return runs


def _robot(runs: list[Samples], robot: Robot | None) -> Robot:
    if not runs:
        raise ValueError("samples are empty; give at least one run")
    found = robot if robot is not None else runs[0].robot
    if found is None:
        raise ValueError("no robot is given, and the samples name none; give robot=load_robot(...)")
    return found


def _rows(robot: Robot) -> Any:
    content = CampaignFile(robot=robot.name, run=[], locked=[], processing=Processing())
    return _stage.rows_of(in_memory(robot, content))


def _robot_of(place: Path, name: str) -> Robot:
    if (place.parent / "campaign.toml").is_file():
        return open_campaign(place.parent, "design").robot
    if name in catalog_names():
        return load(name)
    raise ExcitorError(
        f"{place}: its robot, {name!r}, is neither in the catalogue nor named by a campaign.toml beside it; give robot"
    )


def _placed(robot: Robot, entries: Sequence[Mapping[str, Any]]) -> FloatArray:
    params = layout(robot)
    chi = np.zeros(len(params))
    chi[params.indices([str(entry["name"]) for entry in entries])] = [entry["value"] for entry in entries]
    return chi
