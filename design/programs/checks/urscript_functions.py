"""Functions of a script that need no controller: arithmetic, text and lists; and calls that change no motion."""

import math
from collections.abc import Callable
from typing import Any

from excitor.design.programs.languages.urscript_values import (
    LONGEST,
    Array,
    Struct,
    Text,
    Trouble,
    integer,
    number,
    shown,
)


def norm(a: Any) -> float:
    """Take the absolute value of a number, or the length of a vector."""
    return math.sqrt(sum(number(x) ** 2 for x in a)) if isinstance(a, Array) else abs(number(a))


def length(v: Any) -> int:
    """Count the items of a list or the letters of a text."""
    if not isinstance(v, Array | Text):
        raise Trouble(f"{shown(v)} has no length")
    return len(v)


def join_text(op1: Any, op2: Any) -> Text:
    """Write two values one after the other."""
    text = "".join(op if isinstance(op, Text) else shown(op) for op in (op1, op2))
    if len(text) > LONGEST:
        raise Trouble(f"a text of more than {LONGEST} characters")
    return Text(text)


def make_list(length: Any, initial_value: Any, capacity: Any = None) -> Array:
    """Make a list of equal items."""
    n = integer(length, "the length")
    if not 0 <= n <= LONGEST:
        raise Trouble(f"a list of {n} items")
    return Array([initial_value] * n)


def _real(function: Callable[[float], float]) -> Callable[[Any], float]:
    return lambda f: function(f if type(f) is float else number(f))


def _whole(function: Callable[[float], int]) -> Callable[[Any], int]:
    return lambda f: function(f if type(f) is float else number(f))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: _real(getattr(math, name)) for name in ("sin", "cos", "tan", "asin", "acos", "atan", "sqrt")},
    **{name: _whole(getattr(math, name)) for name in ("floor", "ceil")},
    "atan2": lambda x, y: math.atan2(number(x), number(y)),
    "pow": lambda base, exponent: math.pow(number(base), number(exponent)),
    "log": lambda b, f: math.log(number(f), number(b)),
    "d2r": _real(math.radians),
    "r2d": _real(math.degrees),
    "norm": norm,
    "length": length,
    "str_cat": join_text,
    "str_len": length,
    "to_str": lambda val: Text(shown(val)),
    "make_list": make_list,
    "struct": lambda **members: Struct(members),
}

_SILENT = (
    "textmsg set_digital_out set_standard_digital_out set_configurable_digital_out set_tool_digital_out "
    "set_standard_analog_out set_analog_out set_flag set_tcp set_gravity set_tool_voltage set_tool_communication "
    "set_input_actions_to_default set_runstate_tool_digital_output_to_value set_standard_analog_input_domain "
    "set_analog_outputdomain set_analog_inputrange set_tool_analog_input_domain "
    "set_safety_mode_transition_hardness set_payload_cog zero_ftsensor "
    "request_boolean_from_primary_client modbus_set_runstate_dependent_choice reset_revolution_counter "
    "position_deviation_warning varmsg"
)
SILENT = tuple(_SILENT.split())

_NOT_FOLLOWED = (
    "speedj speedl servoc movec force_mode end_force_mode freedrive_mode teach_mode end_teach_mode "
    "end_freedrive_mode get_inverse_kin get_forward_kin get_actual_tcp_pose get_target_tcp_pose "
    "get_inverse_kin_has_solution pose_trans pose_inv pose_add pose_sub interpolate_pose get_tcp_force force "
    "socket_open socket_close socket_send_string socket_send_line socket_read_string socket_read_ascii_float "
    "socket_read_binary_integer socket_send_int socket_get_var socket_set_var rpc_factory rtde_set_watchdog "
    "conveyor_pulse_decode set_conveyor_tick_count get_conveyor_tick_count track_conveyor_linear "
    "stop_conveyor_tracking path_offset_enable direct_torque torque_command get_standard_analog_in "
    "get_standard_digital_in get_digital_in get_analog_in get_configurable_digital_in get_tool_digital_in "
    "get_flag read_input_integer_register read_input_float_register read_input_boolean_register modbus_add_signal "
    "modbus_get_signal_status get_actual_joint_torques get_joint_torques get_joint_temp get_controller_temp "
    "powerdown"
)
NOT_FOLLOWED = tuple(_NOT_FOLLOWED.split())
