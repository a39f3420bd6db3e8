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
    from excitor.design.constraints.acceleration import ToolAcceleration
    from excitor.design.constraints.constraint import Constraint, ConstraintKind
    from excitor.design.constraints.joint_sum import JointSum
    from excitor.design.constraints.registry import check_constraint
    from excitor.design.constraints.robust_torque import RobustTorque
    from excitor.design.constraints.tool_cone import ToolCone
    from excitor.design.constraints.tool_speed import ToolSpeed
    from excitor.design.constraints.torque_envelope import TorqueEnvelope
    from excitor.experiments.export.export import Export, check_export
    from excitor.experiments.export.export import export_model as export
    from excitor.experiments.fleet.fleet import Fleet, fleet
    from excitor.experiments.in_memory.fitting import (
        compare,
        estimators,
        fit,
        log_formats,
        read_log,
        register,
        samples,
        unregister,
        validate,
    )
    from excitor.experiments.in_memory.problem import (
        AccelerationLimit,
        Box,
        KeepIn,
        KeepOut,
        PositionLimit,
        Problem,
        SelfCollision,
        Series,
        Sphere,
        TorqueLimit,
        VelocityLimit,
        build_problem,
    )
    from excitor.experiments.in_memory.solution import Design, Run, certify, emit, forecast, solve, verify
    from excitor.experiments.model import Model
    from excitor.experiments.model import read_model as load_model
    from excitor.experiments.report.page import Section, check_section
    from excitor.experiments.simulate import simulate_run as simulate
    from excitor.experiments.stages import Campaign
    from excitor.identify.log import Channel, Clock, Log, Recording
    from excitor.identify.logs.formats import check_log_format
    from excitor.identify.logs.opened import LogFormat
    from excitor.identify.methods import check_estimator
    from excitor.identify.methods import method_of as estimator
    from excitor.identify.samples import Samples
    from excitor.robots.base import base_parameters
    from excitor.robots.dynamics import inverse_dynamics, regressor
    from excitor.robots.errors import ExcitorError, InvalidLog
    from excitor.robots.friction import FrictionLaw, check_friction
    from excitor.robots.load import load as load_robot
    from excitor.robots.robot import Motion

    __version__: str

_MODULES = {  # where each public name is defined; "name=its name there" where the two differ
    "robots.load": "load_robot=load",
    "robots.base": "base_parameters",
    "robots.dynamics": "inverse_dynamics regressor",
    "robots.robot": "Motion",
    "robots.errors": "ExcitorError InvalidLog",
    "robots.friction": "FrictionLaw check_friction",
    "design.constraints.constraint": "Constraint ConstraintKind",
    "design.constraints.joint_sum": "JointSum",
    "design.constraints.registry": "check_constraint",
    "design.constraints.robust_torque": "RobustTorque",
    "design.constraints.acceleration": "ToolAcceleration",
    "design.constraints.tool_cone": "ToolCone",
    "design.constraints.tool_speed": "ToolSpeed",
    "design.constraints.torque_envelope": "TorqueEnvelope",
    "experiments.in_memory.problem": (
        "Series KeepOut KeepIn Box Sphere SelfCollision PositionLimit VelocityLimit AccelerationLimit "
        "TorqueLimit build_problem Problem"
    ),
    "experiments.in_memory.solution": "solve Design Run certify forecast emit verify",
    "experiments.simulate": "simulate=simulate_run",
    "experiments.in_memory.fitting": (
        "read_log samples fit validate compare register unregister estimators log_formats"
    ),
    "identify.log": "Log Recording Channel Clock",
    "identify.logs.formats": "check_log_format",
    "identify.logs.opened": "LogFormat",
    "identify.samples": "Samples",
    "identify.methods": "estimator=method_of check_estimator",
    "experiments.model": "Model load_model=read_model",
    "experiments.export.export": "export=export_model Export check_export",
    "experiments.report.page": "Section check_section",
    "experiments.stages": "Campaign",
    "experiments.fleet.fleet": "fleet Fleet",
}
_PLACES = {  # public name -> module, name
    entry.partition("=")[0]: (f"excitor.{module}", entry.rpartition("=")[2])
    for module, entries in _MODULES.items()
    for entry in entries.split()
}
__all__ = [  # noqa: RUF022 - in the order of a campaign
    "load_robot", "base_parameters", "inverse_dynamics", "regressor", "Motion",
    "Series", "ToolSpeed", "KeepOut", "KeepIn", "Box", "Sphere", "SelfCollision",
    "PositionLimit", "VelocityLimit", "AccelerationLimit", "TorqueLimit", "ToolCone", "JointSum", "Constraint",
    "ToolAcceleration", "TorqueEnvelope", "RobustTorque",
    "build_problem", "Problem", "solve", "Design", "Run", "certify", "forecast",
    "emit", "verify", "simulate",
    "read_log", "Log", "samples", "Samples",
    "fit", "Model", "load_model", "validate", "compare", "export",
    "Campaign", "fleet", "Fleet", "register", "unregister", "estimator", "estimators", "Export", "FrictionLaw",
    "LogFormat", "log_formats", "Recording", "Channel", "Clock", "ConstraintKind", "Section",
    "check_estimator", "check_export", "check_friction", "check_log_format", "check_constraint", "check_section",
    "ExcitorError", "InvalidLog", "__version__",
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
