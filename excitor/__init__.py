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
    from excitor.experiments.export.export import Export as Export
    from excitor.experiments.export.export import check_export as check_export
    from excitor.experiments.export.export import export_model as export
    from excitor.experiments.in_memory.fitting import compare as compare
    from excitor.experiments.in_memory.fitting import estimators as estimators
    from excitor.experiments.in_memory.fitting import fit as fit
    from excitor.experiments.in_memory.fitting import read_log as read_log
    from excitor.experiments.in_memory.fitting import register as register
    from excitor.experiments.in_memory.fitting import samples as samples
    from excitor.experiments.in_memory.fitting import unregister as unregister
    from excitor.experiments.in_memory.fitting import validate as validate
    from excitor.experiments.in_memory.problem import AccelerationLimit as AccelerationLimit
    from excitor.experiments.in_memory.problem import Box as Box
    from excitor.experiments.in_memory.problem import KeepIn as KeepIn
    from excitor.experiments.in_memory.problem import KeepOut as KeepOut
    from excitor.experiments.in_memory.problem import PositionLimit as PositionLimit
    from excitor.experiments.in_memory.problem import Problem as Problem
    from excitor.experiments.in_memory.problem import SelfCollision as SelfCollision
    from excitor.experiments.in_memory.problem import Series as Series
    from excitor.experiments.in_memory.problem import Sphere as Sphere
    from excitor.experiments.in_memory.problem import ToolSpeed as ToolSpeed
    from excitor.experiments.in_memory.problem import TorqueLimit as TorqueLimit
    from excitor.experiments.in_memory.problem import VelocityLimit as VelocityLimit
    from excitor.experiments.in_memory.problem import build_problem as build_problem
    from excitor.experiments.in_memory.solution import Design as Design
    from excitor.experiments.in_memory.solution import Run as Run
    from excitor.experiments.in_memory.solution import certify as certify
    from excitor.experiments.in_memory.solution import emit as emit
    from excitor.experiments.in_memory.solution import forecast as forecast
    from excitor.experiments.in_memory.solution import solve as solve
    from excitor.experiments.in_memory.solution import verify as verify
    from excitor.experiments.model import Model as Model
    from excitor.experiments.model import read_model as load_model
    from excitor.experiments.report.page import Section as Section
    from excitor.experiments.report.page import check_section as check_section
    from excitor.experiments.simulate import simulate_run as simulate
    from excitor.experiments.stages import Campaign as Campaign
    from excitor.identify.log import Log as Log
    from excitor.identify.methods import check_estimator as check_estimator
    from excitor.identify.methods import method_of as estimator
    from excitor.identify.samples import Samples as Samples
    from excitor.robots.base import base_parameters as base_parameters
    from excitor.robots.dynamics import inverse_dynamics as inverse_dynamics
    from excitor.robots.dynamics import regressor as regressor
    from excitor.robots.errors import ExcitorError as ExcitorError
    from excitor.robots.friction import FrictionLaw as FrictionLaw
    from excitor.robots.friction import check_friction as check_friction
    from excitor.robots.load import load as load_robot
    from excitor.robots.robot import Motion as Motion

    __version__: str

_MODULES = {  # where each public name is defined; "name=its name there" where the two differ
    "robots.load": "load_robot=load",
    "robots.base": "base_parameters",
    "robots.dynamics": "inverse_dynamics regressor",
    "robots.robot": "Motion",
    "robots.errors": "ExcitorError",
    "robots.friction": "FrictionLaw check_friction",
    "experiments.in_memory.problem": (
        "Series ToolSpeed KeepOut KeepIn Box Sphere SelfCollision PositionLimit VelocityLimit AccelerationLimit "
        "TorqueLimit build_problem Problem"
    ),
    "experiments.in_memory.solution": "solve Design Run certify forecast emit verify",
    "experiments.simulate": "simulate=simulate_run",
    "experiments.in_memory.fitting": "read_log samples fit validate compare register unregister estimators",
    "identify.log": "Log",
    "identify.samples": "Samples",
    "identify.methods": "estimator=method_of check_estimator",
    "experiments.model": "Model load_model=read_model",
    "experiments.export.export": "export=export_model Export check_export",
    "experiments.report.page": "Section check_section",
    "experiments.stages": "Campaign",
}
_PLACES = {  # public name -> module, name
    entry.partition("=")[0]: (f"excitor.{module}", entry.rpartition("=")[2])
    for module, entries in _MODULES.items()
    for entry in entries.split()
}
__all__ = [  # noqa: RUF022 - in the order of a campaign
    "load_robot", "base_parameters", "inverse_dynamics", "regressor", "Motion",
    "Series", "ToolSpeed", "KeepOut", "KeepIn", "Box", "Sphere", "SelfCollision",
    "PositionLimit", "VelocityLimit", "AccelerationLimit", "TorqueLimit",
    "build_problem", "Problem", "solve", "Design", "Run", "certify", "forecast",
    "emit", "verify", "simulate",
    "read_log", "Log", "samples", "Samples",
    "fit", "Model", "load_model", "validate", "compare", "export",
    "Campaign", "register", "unregister", "estimator", "estimators", "Export", "FrictionLaw",
    "Section", "check_estimator", "check_export", "check_friction", "check_section",
    "ExcitorError", "__version__",
]  # fmt: skip

if not (Path(__file__).parent / "robots").is_dir():  # a checkout, where the rooms stand beside this folder
    __path__.append(str(Path(__file__).resolve().parent.parent))


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("excitor")
    if name not in _PLACES:
        raise AttributeError(f"module 'excitor' has no attribute {name!r}")
    module, original = _PLACES[name]
    value = getattr(import_module(module), original)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
