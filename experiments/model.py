"""model.json: written and read results of an identification, with their uncertainty and provenance."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from excitor.experiments.campaign import FILE as CAMPAIGN
from excitor.experiments.files import read_json, write_atomically
from excitor.robots.arrays import FloatArray, freeze
from excitor.robots.base import base_parameters
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.errors import ExcitorError
from excitor.robots.files.bounded import parse_toml
from excitor.robots.files.schema import LARGEST, sentences
from excitor.robots.load import catalog_names, load, read_text
from excitor.robots.parameters import layout
from excitor.robots.robot import Motion, Payload, Robot

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from excitor.identify.consistent import Delivered

FILE = "model.json"
SCHEMA = 1
MADE_BY = "excitor identify"


@dataclass(frozen=True, slots=True)
class Weight:
    """The standard deviation that weighted a joint's equations in a run."""

    joint: str
    run: int  # its place among the runs that were fitted to; -1: all of them
    sigma: float


@dataclass(frozen=True, eq=False, slots=True)
class Standard:
    """The physically consistent standard parameters."""

    names: tuple[str, ...]
    units: tuple[str, ...]
    values: FloatArray  # (n_params,)
    labels: tuple[str, ...]  # how far each is the data's doing
    status: str = ""  # of the solver
    solver: str = ""
    loss: float = np.nan  # what consistency costs: relative increase of the weighted residual
    eigenvalues: FloatArray = field(default_factory=lambda: np.empty(0))  # (n_bodies,), smallest of each pseudo-inertia
    covariances: Mapping[str, FloatArray] = field(default_factory=dict)  # link -> (10, 10)
    sigma: FloatArray | None = None  # (n_params,); None: the file is of an older version
    share: FloatArray | None = None  # (n_params,): of what data alone and the prior alone know of it, the data's part
    active: tuple[str, ...] = ()  # parameters that lie on a bound
    links: tuple[str, ...] = ()  # that have a body

    def __post_init__(self) -> None:
        freeze(self, values="n_params", eigenvalues="n_bodies", sigma="n_params?", share="n_params?")

    def to_json(self) -> dict[str, Any]:
        """Convert to plain data as in model.json."""
        return {
            **{key: getattr(self, key) for key in ("status", "solver", "loss")},
            "smallest_eigenvalues": self.eigenvalues.tolist(),
            "parameters": [self._entry(k) for k in range(len(self.names))],
            "link_covariances": {name: C.tolist() for name, C in self.covariances.items()},
            **({} if self.share is None else {"on_a_bound": list(self.active), "bodies": list(self.links)}),
        }

    def _entry(self, k: int) -> dict[str, Any]:
        entry = {"name": self.names[k], "unit": self.units[k], "value": float(self.values[k]), "label": self.labels[k]}
        more = {"sigma": self.sigma, "share": self.share}
        return entry | {key: float(given[k]) for key, given in more.items() if given is not None}


@dataclass(frozen=True, eq=False, slots=True)
class Fitted:
    """Settings of the estimate and its intervals."""

    equations: int
    settings: Mapping[str, float | str | None]
    intervals: str  # the method of the intervals
    interval_settings: Mapping[str, float | None]

    def to_json(self) -> dict[str, Any]:
        """Convert to plain data as in model.json."""
        return {
            "equations": self.equations,
            "settings": dict(self.settings),
            "intervals": {"method": self.intervals, "settings": dict(self.interval_settings)},
        }


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Model:
    """A model.json. `payload`, `load` and `arm` are of payload campaigns; an arm's `load` was subtracted."""

    robot_name: str
    method: str = ""
    task: str = "arm"  # or "payload"
    names: tuple[str, ...] = ()  # of the base parameters
    units: tuple[str, ...] = ()
    regroupings: tuple[str, ...] = ()
    values: FloatArray = field(default_factory=lambda: np.empty(0))  # (n_base,)
    sigma_white: FloatArray = field(default_factory=lambda: np.empty(0))  # (n_base,), of white residuals
    sigma: FloatArray = field(default_factory=lambda: np.empty(0))  # (n_base,); NaN: the file does not say
    low: FloatArray = field(default_factory=lambda: np.empty(0))  # (n_base,), of the 95 % interval
    high: FloatArray = field(default_factory=lambda: np.empty(0))
    covariance: FloatArray | None = None  # (n_base, n_base)
    standard: Standard | None = None
    refusal: str = ""  # why there are no standard parameters
    condition: float | None = None
    smallest_inertia: float | None = None  # of the estimated M(q) over random poses, as an eigenvalue
    singular_values: FloatArray = field(default_factory=lambda: np.empty(0))
    weights: tuple[Weight, ...] = ()
    training: Mapping[str, Any] | None = None  # torque errors on the runs fitted to
    held_out: Mapping[str, Any] | None = None  # and on the others
    same_run: Mapping[str, Any] | None = None  # on stretches of the same runs, fitted without them
    by_run: tuple[Mapping[str, Any], ...] = ()  # errors of every run
    unconstrained: Mapping[str, Any] | None = None  # errors of the estimate where the consistent model is delivered
    verdict: Mapping[str, Any] | None = None  # what it may be used for, and the evidence; None: of an older version
    reduction: Mapping[str, Any] | None = None
    fitted: Fitted | None = None  # None: the file is of an older version
    payload: Any = None
    load: Mapping[str, Any] | None = None
    arm: Mapping[str, Any] | None = None
    friction: Mapping[str, Any] | None = None  # the form chosen for each joint, beside its alternatives
    laws: Mapping[str, Any] | None = None  # doubt about current laws, and what their errors do to the parameters
    findings: tuple[Mapping[str, Any], ...] = ()
    processing: tuple[Mapping[str, Any], ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)
    currents: Mapping[str, float] | None = None  # where torques are in A: A of one drive per A of each joint's
    path: Path | None = None  # where it was read
    robot: Robot | None = None

    def __post_init__(self) -> None:
        freeze(self, finite=False, values="n", sigma_white="n", sigma="n", low="n", high="n", singular_values="m")
        freeze(self, covariance=f"{len(self.names)} {len(self.names)}?")

    def __repr__(self) -> str:
        """Return the main figures in one line."""
        if self.task == "payload":
            return f"Model(what {self.robot_name} carries)"
        parts = [f"{len(self.names)} parameters by {self.method or 'an unnamed method'}"]
        for name, validation in (("held_out", self.held_out), ("training", self.training)):
            error = dict((validation or {}).get("figures", {})).get(f"{name}_relative_error")
            parts += [] if error is None else [f"{name.replace('_', '-')} torque error {100.0 * error:.3g} %"]
        parts += [] if self.condition is None else [f"condition {self.condition:.3g}"]
        parts.append("no consistent parameters" if self.standard is None else "physically consistent")
        return f"Model({self.robot_name}: {', '.join(parts)})"

    @property
    def where(self) -> str:
        """The file, for sentences about it."""
        return str(self.path or FILE)

    @property
    def inflation(self) -> FloatArray:
        """Ratio of the intervals to those for white residuals, (n_base,)."""
        return self.sigma / self.sigma_white

    @property
    def chi(self) -> FloatArray:
        """The base parameters on the robot, (n_params,): 0 for what regrouped."""
        self._check_arm()
        return self._placed(self.names, self.values)

    @property
    def delivered(self) -> "Delivered":
        """The parameters that torques are predicted with: the consistent ones, or those of the estimate."""
        from excitor.identify.consistent import COSTLY, Delivered

        self._check_arm()
        robot, standard = self.own_robot(), self.standard
        params, base = layout(robot), base_parameters(robot)
        kept = tuple(params.names[k] for k in base.kept)
        costly = standard is not None and standard.loss > COSTLY
        if standard is None or costly or set(kept) != set(self.names):
            return Delivered(self.names, self.values, self.chi, False, np.empty((len(self.names), 0)))
        return Delivered(kept, base.values(self.consistent()), self.consistent(), True, np.empty((len(kept), 0)))

    @property
    def error(self) -> float:
        """‖τ - τ̂‖ / ‖τ‖ over all joints: held out where there were unseen runs, else of training; NaN if not known."""
        kind = "training" if self.held_out is None else "held_out"
        figures = (self.held_out or self.training or {}).get("figures", {})
        return float(figures.get(f"{kind}_relative_error", np.nan))

    @property
    def trained_on(self) -> tuple[str, ...]:
        """Names of the runs that it was fitted to."""
        return tuple((self.training or {}).get("runs", ()))

    def consistent(self) -> FloatArray:
        """Return the physically consistent parameters, (n_params,); ExcitorError where there are none."""
        self._check_arm()
        if self.standard is None:
            self.check_in_kg()
            raise ExcitorError(f"{self.where}: holds no physically consistent model ({self.refusal})")
        return self._placed(self.standard.names, self.standard.values)

    def with_load(self) -> "Model":
        """Add the stated load, that was subtracted from the torques, to the arm's parameters and their covariance."""
        from excitor.identify.load.fit import REACH

        chi, load, robot = self.chi, self.known_load(), self.own_robot()
        base, params = base_parameters(robot), layout(robot)
        own = params.link(load.link)
        chi[own] += load.phi
        values, names = base.values(chi), tuple(params.names[k] for k in base.kept)
        B = np.column_stack([base.values(unit) for unit in np.eye(len(params))[own]])
        C = B @ load.covariance @ B.T
        rows = [names.index(name) for name in self.names]
        C[np.ix_(rows, rows)] += np.nan if self.covariance is None else self.covariance
        sigma, standard = np.sqrt(np.diag(C)), self.standard
        if standard is not None:
            shift = dict(zip(params.names[own], load.phi.tolist(), strict=True))
            standard = replace(standard, values=standard.values + [shift.get(name, 0.0) for name in standard.names])
        half, unknown = REACH * sigma, np.full(len(names), np.nan)
        found: dict[str, Any] = {"names": names, "units": base.units, "regroupings": base.names, "values": values}
        found |= {"sigma": sigma, "sigma_white": unknown, "low": values - half, "high": values + half}
        return replace(self, **found, covariance=C if np.isfinite(C).all() else None, standard=standard, load=None)

    def known_load(self) -> Payload:
        """Return the load whose torques were subtracted; ExcitorError where there is none."""
        robot, given = self.own_robot(), self.load or {}
        try:
            link = robot.mechanism.link_names.index(given["link"])
            return Payload(link, np.array(given["phi"], dtype=float), np.array(given["covariance"], dtype=float))
        except (KeyError, TypeError, ValueError):
            what = "has a damaged load" if given else "knows of no stated load"
            raise ExcitorError(f"{self.where}: {what}, so no tool can be added; state [payload] and identify") from None

    def labels(self) -> tuple[str, ...]:
        """Label of every parameter of the robot by the share of data and prior; "" where unknown."""
        return self._labels(layout(self.own_robot()).names)

    def _labels(self, names: Sequence[str]) -> tuple[str, ...]:
        labels = {} if self.standard is None else dict(zip(self.standard.names, self.standard.labels, strict=True))
        return tuple(labels.get(name, "") for name in names)

    def torque(self, q: FloatArray, dq: FloatArray, ddq: FloatArray) -> FloatArray:
        """Torques, N m or N, of motions (n_joints,) or (n_samples, n_joints); currents, A, where there is no law.

        They are those of the physically consistent model, or of the base parameters where there is none.
        """
        motion = Motion(*(np.atleast_2d(np.asarray(x, dtype=float)) for x in (q, dq, ddq)))
        tau = inverse_dynamics(self.own_robot(), motion, self.delivered.chi).reshape(np.shape(q))
        return tau if self.currents is None else tau / np.array([*self.currents.values()])

    def check_in_kg(self) -> None:
        """Raise ExcitorError if the model is of currents without a law, which tell nothing in kg or N m."""
        from excitor.identify.currents import LAW_NEEDED

        if self.currents is not None:
            raise ExcitorError(f"{self.where}: is in A, for want of a current law; {LAW_NEEDED}, and identify again")

    def own_robot(self) -> Robot:
        """Return the robot that the model was read with, else that of the campaign beside it or of the catalogue."""
        robot = self.robot or _robot_of(self.path, self.robot_name, self.friction)
        if robot is None:
            raise ExcitorError(
                f"{self.where}: its robot, {self.robot_name!r}, is neither in the catalogue nor named by a "
                f"{CAMPAIGN} beside it; give the robot: read_model(path, robot)"
            )
        return robot

    def known_covariance(self) -> FloatArray:
        """Return the base parameters' covariance, (n_base, n_base); ExcitorError where there is none."""
        if self.covariance is None:
            raise ExcitorError(
                f"{self.where}: has no covariance, so its uncertainty is unknown; identify the campaign again"
            )
        return self.covariance

    def known_sigma(self) -> FloatArray:
        """Return the base parameters' standard deviations, (n_base,); ExcitorError where one is missing."""
        if not np.isfinite(self.sigma).all():
            raise ExcitorError(f"{self.where}: a parameter has no sigma; identify the campaign again")
        return self.sigma

    def residuals(self, joints: Sequence[str]) -> FloatArray:
        """Return each joint's residual torque, rms over runs, (n_joints,)."""
        squares = np.zeros(len(joints))
        for j, name in enumerate(joints):
            found = [weight.sigma for weight in self.weights if weight.joint == name]
            squares[j] = np.mean(np.square(found)) if found else 0.0
        if not squares.any():
            raise ExcitorError(f"{self.where}: its weights name no joint of this robot; identify the campaign again")
        return np.sqrt(np.where(squares > 0.0, squares, squares.max()))

    def to_frame(self) -> "pd.DataFrame":
        """List the base parameters: name, value, std, lower, upper, unit, label, regrouping."""
        import pandas as pd

        headings = ("name", "value", "std", "lower", "upper", "unit", "label", "regrouping")
        own = (self.names, self.values, self.sigma, self.low, self.high, self.units)
        return pd.DataFrame(dict(zip(headings, (*own, self._labels(self.names), self.regroupings), strict=True)))

    def to_json(self) -> dict[str, Any]:
        """Convert to plain data as in model.json."""
        head: dict[str, Any] = {"schema": SCHEMA}
        standard = {"status": "none", "reason": self.refusal} if self.standard is None else self.standard.to_json()
        tail = {
            "findings": [dict(finding) for finding in self.findings],
            "processing": [dict(step) for step in self.processing],
            "provenance": dict(self.provenance),
            **({} if self.currents is None else {"currents": dict(self.currents)}),
            **{key: dict(getattr(self, key)) for key in ("friction", "laws") if getattr(self, key) is not None},
        }
        weights = [asdict(weight) for weight in self.weights]
        if self.task == "payload":
            head |= {"task": self.task, "robot": self.robot_name, "parameters": [], "standard": standard}
            return head | {"weights": weights, "payload": self.payload, "load": self.load, "arm": self.arm} | tail
        own = {
            "robot": self.robot_name,
            "method": self.method,
            "parameters": [self._entry(k) for k in range(len(self.names))],
            "covariance": None if self.covariance is None else self.covariance.tolist(),
            "standard": standard,
            "rank": len(self.names),
            "condition": self.condition,
            "smallest_mass_matrix_eigenvalue": self.smallest_inertia,
            "singular_values": self.singular_values.tolist(),
            "weights": weights,
            **({} if self.fitted is None else {"fit": self.fitted.to_json()}),
            **{key: getattr(self, key) for key in ("training", "held_out", "same_run")},
            "by_run": [dict(run) for run in self.by_run],
            **{key: getattr(self, key) for key in ("unconstrained", "verdict", "reduction")},
        }
        known = {"payload": self.payload, "load": self.load}
        return head | own | {key: value for key, value in known.items() if value is not None} | tail

    def to_latex(self) -> str:
        """Write the base parameters as a LaTeX table (package booktabs)."""
        head = (r"\begin{tabular}{lrrl}", r"\toprule", r"parameter & value & 95\,\% interval & unit \\", r"\midrule")
        listed = (self.names, self.values, self.low, self.high, self.units)
        rows = [
            rf"{escape_latex(name)} & {value:.5g} & [{low:.4g}, {high:.4g}] & {unit_in_latex(unit)} \\"
            for name, value, low, high, unit in zip(*listed, strict=True)
        ]
        return "\n".join([*head, *rows, r"\bottomrule", r"\end{tabular}"]) + "\n"

    def _repr_html_(self) -> str:
        return str(self.to_frame().to_html(index=False))  # of notebooks; text is escaped

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the base parameters with their intervals, each divided by the size of its value."""
        axes = new_axes() if ax is None else ax
        size = np.where(self.values == 0.0, 1.0, np.abs(self.values))
        spans = [(self.values - self.low) / size, (self.high - self.values) / size]
        places = np.arange(len(self.values))
        axes.errorbar(places, self.values / size, yerr=spans, fmt="o", capsize=3)
        axes.set_xticks(places, self.names, rotation=90)
        axes.set_ylabel("value and 95 % interval, relative")
        return axes

    def save(self, path: str | PathLike[str]) -> Path:
        """Write model.json into a folder, or a file whose name ends in .json; whole or not at all."""
        place = Path(path)
        place = place if place.suffix == ".json" else place / FILE
        place.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(place, json.dumps(self.to_json(), indent=2, allow_nan=False) + "\n")
        return place

    def _entry(self, k: int) -> dict[str, Any]:
        numbers = {"value": self.values[k], "sigma_white": self.sigma_white[k], "sigma": self.sigma[k]}
        return {
            "name": self.names[k],
            "regrouping": self.regroupings[k],
            "unit": self.units[k],
            **{key: float(x) if np.isfinite(x) else None for key, x in numbers.items()},
            "interval": [float(self.low[k]), float(self.high[k])] if np.isfinite(self.low[k]) else None,
        }

    def _check_arm(self) -> None:
        if self.task == "payload":
            raise ExcitorError(
                f"{self.where}: is of what the robot carries; the arm's model is in the campaign of its prior"
            )

    def _placed(self, names: Sequence[str], values: FloatArray) -> FloatArray:
        robot = self.own_robot()
        params = layout(robot)
        other = [name for name in names if name not in params.names]
        if other:
            raise ExcitorError(f"{self.where}: parameter {other[0][:80]!r} is not one of {robot.name}; identify again")
        chi = np.zeros(len(params))
        chi[params.indices(list(names))] = values
        return chi


def new_axes() -> "Axes":
    """Make matplotlib axes of a figure of their own."""
    from matplotlib.figure import Figure

    return Figure(layout="constrained").add_subplot()


def escape_latex(text: str) -> str:
    """Write text so that LaTeX prints it and runs none of it."""
    words = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    return "".join(words.get(x, f"\\{x}" if x in "_#%&${}" else x) for x in text)


def unit_in_latex(unit: str) -> str:
    """Write kg m2 as kg m^2 is written."""
    parts = unit.split()
    return " ".join(rf"$\mathrm{{{p[:-1]}}}^{p[-1]}$" if p[-1:].isdigit() and p[:-1].isalpha() else p for p in parts)


Size = Annotated[FiniteFloat, Field(ge=0.0, le=1e30)]
Value = Annotated[FiniteFloat, Field(ge=-1e30, le=1e30)]
Text = Annotated[str, Field(max_length=200)]
Table = dict[str, Any]


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)


class _Parameter(_Part):
    """A base parameter; missing fields are of an older version."""

    name: Text
    regrouping: Annotated[str, Field(max_length=100_000)] = ""
    unit: Text = ""
    value: Value
    sigma_white: Size | None = None
    sigma: Size | None = None
    interval: Annotated[list[Value], Field(min_length=2, max_length=2)] | None = None


class _StandardParameter(_Part):
    name: Text
    unit: Text = ""
    value: Annotated[FiniteFloat, Field(ge=-LARGEST, le=LARGEST)]
    label: Text = ""
    sigma: Size | None = None
    share: Value | None = None


class _Standard(_Part):
    """The consistent parameters, or the reason why there are none."""

    reason: str = ""
    status: str = ""
    solver: str = ""
    loss: Value | None = None
    smallest_eigenvalues: Annotated[list[Value], Field(max_length=1000)] = []
    parameters: Annotated[list[_StandardParameter], Field(max_length=5000)] | None = None
    link_covariances: dict[
        Text, Annotated[list[Annotated[list[Value], Field(max_length=10)]], Field(max_length=10)]
    ] = {}
    on_a_bound: list[Text] = []
    bodies: list[Text] = []


class _Weight(_Part):
    joint: Text
    run: int = -1
    sigma: Annotated[FiniteFloat, Field(gt=0.0, le=1e30)]


class _Intervals(_Part):
    method: Text
    settings: dict[str, float | None]


class _Fit(_Part):
    equations: int
    settings: dict[str, float | str | None]
    intervals: _Intervals


class _Use(_Part):
    use: Text
    go: bool | None
    reasons: list[str] = []


class _Verdict(_Part):
    go: bool | None
    headline: Text
    learned: bool = True
    uses: Annotated[list[_Use], Field(max_length=100)]
    scores: Table = {}


class _Forms(_Part):
    rule: str = ""
    joints: Annotated[list[Table], Field(max_length=200)]


class _Laws(_Part):
    motors: Annotated[list[Text], Field(max_length=100)]
    sigma: Annotated[list[Size], Field(max_length=100)]
    slopes: Annotated[list[Annotated[list[Value], Field(max_length=100)]], Field(max_length=2000)]


class _File(_Part):
    robot: Text = ""
    method: Text = ""
    task: Text = "arm"
    parameters: Annotated[list[_Parameter], Field(max_length=2000)]
    covariance: Annotated[list[list[Value]], Field(max_length=2000)] | None = None
    standard: _Standard | None = None
    condition: Value | None = None
    smallest_mass_matrix_eigenvalue: Value | None = None
    singular_values: Annotated[list[Value], Field(max_length=2000)] = []
    weights: Annotated[list[_Weight], Field(max_length=10_000)]
    fit: _Fit | None = None
    training: Table | None = None
    held_out: Table | None = None
    same_run: Table | None = None
    by_run: list[Table] = []
    unconstrained: Table | None = None
    verdict: _Verdict | None = None
    reduction: Table | None = None
    payload: Any = None
    load: Table | None = None
    arm: Table | None = None
    friction: _Forms | None = None
    laws: _Laws | None = None
    findings: list[Table] = []
    processing: list[Table] = []
    provenance: Table = {}
    currents: dict[Text, Value] | None = None


def read_model(path: str | PathLike[str], robot: Robot | None = None) -> Model:
    """Read a model.json; ExcitorError states what is wrong with it.

    Args:
        path: the file, or the folder that holds it.
        robot: that it is of; by default that of the campaign beside the file, else the catalogue's of that name.

    >>> import excitor as ex
    >>> ex.load_model("no-such-folder")
    Traceback (most recent call last):
    excitor.robots.errors.ExcitorError: ...
    """
    path = Path(path)
    path = path / FILE if path.is_dir() else path
    data = read_json(path, SCHEMA, made_by=MADE_BY)
    try:
        file = _File.model_validate(data)
    except ValidationError as error:
        problems = "; ".join(sentences(list(error.errors(include_url=False)))[:5])
        raise ExcitorError(f"{path}: is no whole model: {problems}; identify the campaign again") from None
    return _model(file, path, robot)


AS_WRITTEN = (
    *("method", "task", "condition", "training", "held_out", "same_run", "unconstrained", "reduction"),
    *("payload", "load", "arm", "provenance", "currents"),
)


def _model(file: _File, path: Path, robot: Robot | None) -> Model:
    listed, standard, fit, forms = file.parameters, file.standard or _Standard(), file.fit, file.friction
    fitted = fit if fit is None else Fitted(fit.equations, fit.settings, fit.intervals.method, fit.intervals.settings)
    intervals = [entry.interval or [np.nan, np.nan] for entry in listed]
    return Model(
        robot_name=file.robot,
        names=tuple(entry.name for entry in listed),
        units=tuple(entry.unit for entry in listed),
        regroupings=tuple(entry.regrouping or entry.name for entry in listed),
        values=np.array([entry.value for entry in listed]),
        sigma_white=_numbers([entry.sigma_white for entry in listed]),
        sigma=_numbers([entry.sigma for entry in listed]),
        low=np.array([low for low, _ in intervals]),
        high=np.array([high for _, high in intervals]),
        covariance=_covariance(file, path),
        standard=_standard(standard, path),
        refusal=standard.reason,
        smallest_inertia=file.smallest_mass_matrix_eigenvalue,
        singular_values=np.array(file.singular_values),
        weights=tuple(Weight(entry.joint, entry.run, entry.sigma) for entry in file.weights),
        by_run=tuple(file.by_run),
        verdict=None if file.verdict is None else file.verdict.model_dump(),
        fitted=fitted,
        friction=None if forms is None else forms.model_dump(),
        laws=None if file.laws is None else file.laws.model_dump(),
        findings=tuple(file.findings),
        processing=tuple(file.processing),
        path=path,
        robot=_formed(robot, None if forms is None else forms.model_dump()),
        **{key: getattr(file, key) for key in AS_WRITTEN},
    )


def _numbers(given: list[float | None]) -> FloatArray:
    return np.array([np.nan if x is None else x for x in given])


def _covariance(file: _File, path: Path) -> FloatArray | None:
    n = len(file.parameters)
    if file.covariance is None:
        return None
    if len(file.covariance) != n or any(len(row) != n for row in file.covariance):
        raise ExcitorError(f"{path}: its covariance is not {n} x {n}, one row a parameter; identify the campaign again")
    return np.array(file.covariance).reshape(n, n)


def _standard(given: _Standard, path: Path) -> Standard | None:
    listed = given.parameters
    if listed is None:
        return None
    for name, C in given.link_covariances.items():
        if len(C) != 10 or any(len(row) != 10 for row in C):
            raise ExcitorError(f"{path}: standard.link_covariances.{name}: expected 10 x 10 numbers; identify again")
    whole = bool(listed) and all(entry.sigma is not None and entry.share is not None for entry in listed)
    return Standard(
        names=tuple(entry.name for entry in listed),
        units=tuple(entry.unit for entry in listed),
        values=np.array([entry.value for entry in listed]),
        labels=tuple(entry.label for entry in listed),
        status=given.status,
        solver=given.solver,
        loss=np.nan if given.loss is None else given.loss,
        eigenvalues=np.array(given.smallest_eigenvalues),
        covariances={name: np.array(C) for name, C in given.link_covariances.items()},
        sigma=_numbers([entry.sigma for entry in listed]) if whole else None,
        share=_numbers([entry.share for entry in listed]) if whole else None,
        active=tuple(given.on_a_bound),
        links=tuple(given.bodies),
    )


def _formed(robot: Robot | None, friction: Mapping[str, Any] | None) -> Robot | None:
    """Give a robot the friction that was chosen, if any was."""
    if robot is None or friction is None:
        return robot
    from excitor.identify.friction_form import formed

    return formed(robot, friction)


def _robot_of(path: Path | None, name: str, friction: Mapping[str, Any] | None) -> Robot | None:
    """Load the robot that the campaign beside a model names, else the catalogue's of that name, with a friction."""
    if path is not None and (campaign := path.parent / CAMPAIGN).is_file():
        try:
            name = str(parse_toml(read_text(campaign)).get("robot", name))
        except (ExcitorError, ValueError, RecursionError):
            return None
        if name not in catalog_names() and (path.parent / name).is_file():
            return _formed(load(path.parent / name), friction)
    return _formed(load(name), friction) if name in catalog_names() else None
