"""Excitor: plan robot-identification campaigns and turn their measurements into dynamic models.

    τ   =  Y(q, q̇, q̈) χ                                                     load_robot, base_parameters, regressor
    x*  =  argmin  criterion( W(x)ᵀ Σ⁻¹ W(x) )   s.t.  constraints(x) ≤ 0     build_problem, solve, emit
    χ̂   =  argmin  ‖ W χ − τ ‖²_{Σ⁻¹}   s.t.  χ physically consistent         read_log, samples, fit, export

Names are imported when they are used.
"""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from excitor.data import read_log as read_log
    from excitor.data import samples as samples
    from excitor.experiments.export.export import Export as Export
    from excitor.experiments.stages import Campaign as Campaign
    from excitor.fitting import Model as Model
    from excitor.fitting import compare as compare
    from excitor.fitting import estimator as estimator
    from excitor.fitting import estimators as estimators
    from excitor.fitting import export as export
    from excitor.fitting import fit as fit
    from excitor.fitting import load_model as load_model
    from excitor.fitting import validate as validate
    from excitor.identify.log import Log as Log
    from excitor.identify.samples import Samples as Samples
    from excitor.physics import base_parameters as base_parameters
    from excitor.physics import inverse_dynamics as inverse_dynamics
    from excitor.physics import load_robot as load_robot
    from excitor.physics import regressor as regressor
    from excitor.plugins import register as register
    from excitor.plugins import unregister as unregister
    from excitor.problem import AccelerationLimit as AccelerationLimit
    from excitor.problem import Box as Box
    from excitor.problem import KeepIn as KeepIn
    from excitor.problem import KeepOut as KeepOut
    from excitor.problem import PositionLimit as PositionLimit
    from excitor.problem import Problem as Problem
    from excitor.problem import SelfCollision as SelfCollision
    from excitor.problem import Series as Series
    from excitor.problem import Sphere as Sphere
    from excitor.problem import ToolSpeed as ToolSpeed
    from excitor.problem import TorqueLimit as TorqueLimit
    from excitor.problem import VelocityLimit as VelocityLimit
    from excitor.problem import build_problem as build_problem
    from excitor.programs import emit as emit
    from excitor.programs import simulate as simulate
    from excitor.programs import verify as verify
    from excitor.robots.errors import ExcitorError as ExcitorError
    from excitor.robots.robot import Motion as Motion
    from excitor.solution import Design as Design
    from excitor.solution import Run as Run
    from excitor.solution import certify as certify
    from excitor.solution import forecast as forecast
    from excitor.solution import solve as solve

    __version__: str

_MODULES = {  # where each public name is defined
    "excitor.data": ("read_log", "samples"),
    "excitor.experiments.export.export": ("Export",),
    "excitor.experiments.stages": ("Campaign",),
    "excitor.fitting": ("Model", "compare", "estimator", "estimators", "export", "fit", "load_model", "validate"),
    "excitor.identify.log": ("Log",),
    "excitor.identify.samples": ("Samples",),
    "excitor.physics": ("base_parameters", "inverse_dynamics", "load_robot", "regressor"),
    "excitor.plugins": ("register", "unregister"),
    "excitor.problem": (
        "AccelerationLimit",
        "Box",
        "KeepIn",
        "KeepOut",
        "PositionLimit",
        "Problem",
        "SelfCollision",
        "Series",
        "Sphere",
        "ToolSpeed",
        "TorqueLimit",
        "VelocityLimit",
        "build_problem",
    ),
    "excitor.programs": ("emit", "simulate", "verify"),
    "excitor.robots.errors": ("ExcitorError",),
    "excitor.robots.robot": ("Motion",),
    "excitor.solution": ("Design", "Run", "certify", "forecast", "solve"),
}
_PLACE = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [  # noqa: RUF022 - in the order of a campaign
    "load_robot", "base_parameters", "inverse_dynamics", "regressor", "Motion",
    "Series", "ToolSpeed", "KeepOut", "KeepIn", "Box", "Sphere", "SelfCollision",
    "PositionLimit", "VelocityLimit", "AccelerationLimit", "TorqueLimit",
    "build_problem", "Problem", "solve", "Design", "Run", "certify", "forecast",
    "emit", "verify", "simulate",
    "read_log", "Log", "samples", "Samples",
    "fit", "Model", "load_model", "validate", "compare", "export",
    "Campaign", "register", "unregister", "estimator", "estimators", "Export",
    "ExcitorError", "__version__",
]  # fmt: skip

if not (Path(__file__).parent / "robots").is_dir():  # a checkout, where the rooms stand beside this folder
    __path__.append(str(Path(__file__).resolve().parent.parent))


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("excitor")
    if name not in _PLACE:
        raise AttributeError(f"module 'excitor' has no attribute {name!r}")
    value = getattr(import_module(_PLACE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
