"""Torque columns of rotors and friction elements."""

from typing import Any, NamedTuple

import numpy as np

from excitor.robots.arrays import FloatArray, IntArray
from excitor.robots.kernel.compile import compiled, inner
from excitor.robots.kernel.recursion import add_scaled, set_scaled

VISCOUS, COULOMB, OFFSET, SQRT, STRIBECK, LOAD, STATE, RIPPLE_SIN, RIPPLE_COS, ROTOR = range(10)


class Elements(NamedTuple):
    """Rotors and friction terms as flat arrays, one entry an element."""

    model: IntArray
    column: IntArray  # the parameter's column, counted from the first that is not a link's
    senses: FloatArray  # (n_elements, n_joints)
    acts: FloatArray  # (n_elements, n_joints)
    width: FloatArray
    scale: FloatArray


@compiled
def fill_drive(elements: Elements, motion: Any, load: FloatArray, states: FloatArray, out: FloatArray) -> None:
    """Write the columns of all elements into out (n_columns, n_joints, at least n_samples).

    `motion` is (q, dq, ddq), each (n_joints, n_samples); `load` (n_samples, n_joints) and `states`
    (n_elements, n_samples) may be empty where no element needs them.
    """
    n_joints, n_samples = motion[0].shape
    first = min(0, n_samples)  # a plain 0 would be compiled as a type of its own
    value = np.empty(n_samples)
    written = np.zeros(out.shape[:2], dtype=np.bool_)
    for e in range(elements.model.size):
        element_values(elements, e, motion, first, value)
        add_memory_and_load(elements, e, load, states, first, value)
        for i in range(n_joints):
            share = elements.acts[e, i]
            if share == 0.0:
                continue
            row = out[elements.column[e], i]
            if written[elements.column[e], i]:
                add_scaled(row, share, value)
            else:
                set_scaled(row, share, value)
            written[elements.column[e], i] = True
    for column in range(out.shape[0]):
        for i in range(n_joints):
            if not written[column, i]:
                out[column, i, :] = 0.0


@inner
def add_memory_and_load(
    elements: Elements, e: int, load: FloatArray, states: FloatArray, first: int, value: FloatArray
) -> None:
    """Complete g of an element with a state or a load."""
    if elements.model[e] == LOAD:
        for k in range(value.size):
            value[k] *= carried_load(elements, e, load[first + k])
    elif elements.model[e] == STATE:
        for k in range(value.size):
            value[k] = states[e, first + k]


@compiled
def element_values(elements: Elements, e: int, motion: Any, first: int, value: FloatArray) -> None:
    """Write g of element e for the samples from `first` on; states and loads are left out."""
    model = elements.model[e]
    if model == OFFSET:
        value[:] = 1.0
        return
    sense(elements.senses[e], motion[signal(model)], first, value)
    if model not in (ROTOR, VISCOUS, STATE):
        curve(value, model, elements.width[e], elements.scale[e])


@inner
def curve(value: FloatArray, model: int, width: float, scale: float) -> None:
    """Replace what an element senses by its g."""
    if model == RIPPLE_SIN:
        for k in range(value.size):
            value[k] = np.sin(scale * value[k])
    elif model == RIPPLE_COS:
        for k in range(value.size):
            value[k] = np.cos(scale * value[k])
    elif model == SQRT:
        for k in range(value.size):
            value[k] = smooth_sign(value[k], width) * np.sqrt(abs(value[k]))
    elif model == STRIBECK:
        for k in range(value.size):
            value[k] = smooth_sign(value[k], width) * np.exp(-abs(value[k]) / scale)
    else:
        signs(value, width)


@inner
def signs(value: FloatArray, width: float) -> None:
    """Replace velocities by their smoothed signs."""
    if width == 0.0:
        for k in range(value.size):
            value[k] = (1.0 if value[k] > 0.0 else 0.0) - (1.0 if value[k] < 0.0 else 0.0)
    else:
        hyperbolic_tangents(value, 1.0 / width)


@inner
def hyperbolic_tangents(value: FloatArray, scale: float) -> None:
    """Replace x by tanh(scale · x) = E / (E + 2), E = exp(2 |scale · x|) - 1 = 2ᵏ (eʳ - 1) + 2ᵏ - 1, in vector lanes.

    eʳ - 1 for |r| ≤ ln(2) / 2 is its Taylor series; the bits of k make 2ᵏ, exactly.
    """
    for lane in range(value.size):
        x = scale * value[lane]
        y = min(2.0 * abs(x), 60.0)
        n = np.floor(y * 1.4426950408889634 + 0.5)
        r = (y - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10
        p = r / 6227020800.0 + 1.0 / 479001600.0
        p = p * r + 1.0 / 39916800.0
        p = p * r + 1.0 / 3628800.0
        p = p * r + 1.0 / 362880.0
        p = p * r + 1.0 / 40320.0
        p = p * r + 1.0 / 5040.0
        p = p * r + 1.0 / 720.0
        p = p * r + 1.0 / 120.0
        p = p * r + 1.0 / 24.0
        p = p * r + 1.0 / 6.0
        p = p * r + 0.5
        p = r + r * r * p
        power = 1.0
        bit = 64.0 if n >= 64.0 else 0.0
        power *= 1.8446744073709552e19 if n >= 64.0 else 1.0
        n -= bit
        bit = 32.0 if n >= 32.0 else 0.0
        power *= 4294967296.0 if n >= 32.0 else 1.0
        n -= bit
        bit = 16.0 if n >= 16.0 else 0.0
        power *= 65536.0 if n >= 16.0 else 1.0
        n -= bit
        bit = 8.0 if n >= 8.0 else 0.0
        power *= 256.0 if n >= 8.0 else 1.0
        n -= bit
        bit = 4.0 if n >= 4.0 else 0.0
        power *= 16.0 if n >= 4.0 else 1.0
        n -= bit
        bit = 2.0 if n >= 2.0 else 0.0
        power *= 4.0 if n >= 2.0 else 1.0
        n -= bit
        bit = 1.0 if n >= 1.0 else 0.0
        power *= 2.0 if n >= 1.0 else 1.0
        n -= bit
        e = power * p + (power - 1.0)
        e = e / (e + 2.0)
        value[lane] = e if x >= 0.0 else -e


@inner
def smooth_sign(v: float, width: float) -> float:
    """Evaluate sign v, or tanh(v / width) where a width is stated."""
    return float(np.sign(v)) if width == 0.0 else float(np.tanh(v / width))


@compiled
def element_slopes(elements: Elements, e: int, motion: Any, first: int, value: FloatArray) -> None:
    """Write the derivative of g by what element e senses; a true sign, and √|v| at 0, have slope 0."""
    model = elements.model[e]
    if model in (ROTOR, VISCOUS) or flat(model, elements.width[e]):
        value[:] = 0.0 if flat(model, elements.width[e]) else 1.0
        return
    sense(elements.senses[e], motion[signal(model)], first, value)
    curve_slope(value, model, elements.width[e], elements.scale[e])


@inner
def curve_slope(value: FloatArray, model: int, width: float, scale: float) -> None:
    """Replace what an element senses by the slope of its g."""
    if model in (COULOMB, LOAD):
        hyperbolic_tangents(value, 1.0 / width)
        for k in range(value.size):
            value[k] = (1.0 - value[k] * value[k]) / width
        return
    for k in range(value.size):
        v = value[k]
        if model == RIPPLE_SIN:
            value[k] = scale * np.cos(scale * v)
        elif model == RIPPLE_COS:
            value[k] = -scale * np.sin(scale * v)
        else:
            side = np.sign(v)
            sign = smooth_sign(v, width)
            bend = 0.0 if width == 0.0 else (1.0 - sign * sign) / width
            if model == SQRT:
                value[k] = bend * np.sqrt(abs(v)) + (0.0 if v == 0.0 else sign * side / (2.0 * np.sqrt(abs(v))))
            else:
                value[k] = (bend - sign * side / scale) * np.exp(-abs(v) / scale)


@inner
def flat(model: int, width: float) -> bool:
    """Return True where g has slope 0 everywhere: constants, what counts as given, and true signs."""
    return model in (OFFSET, STATE) or (model in (COULOMB, LOAD) and width == 0.0)


@compiled
def signal(model: int) -> int:
    """Return the signal that elements of a model sense: 0 positions, 1 velocities, 2 accelerations."""
    if model == ROTOR:
        return 2
    return 0 if model in (STATE, RIPPLE_SIN, RIPPLE_COS) else 1


@inner
def sense(senses: FloatArray, source: FloatArray, first: int, value: FloatArray) -> None:
    """Write the combination of positions, velocities or accelerations that an element senses."""
    fresh = True
    for i in range(source.shape[0]):
        share = senses[i]
        if share == 0.0:
            continue
        sensed = source[i, first : first + value.size]
        if fresh:
            set_scaled(value, share, sensed)
        else:
            add_scaled(value, share, sensed)
        fresh = False
    if fresh:
        value[:] = 0.0


@inner
def carried_load(elements: Elements, e: int, load: FloatArray) -> float:
    """Compute the load of a load-dependent element: |acts @ τ|."""
    total = 0.0
    for i in range(load.size):
        total += elements.acts[e, i] * load[i]
    return abs(total)


@compiled
def slip_state(position: FloatArray, delta: float, warm_up: int, out: FloatArray) -> None:
    """Run a Maxwell-slip element along a run: z ← clip(z + Δp / delta, -1, 1), from z = 0.

    `warm_up` passes over the whole run come first; a pass continues where the one before ended, as periods do.
    """
    z = 0.0
    before = position[0]
    for _ in range(warm_up + 1):
        for k in range(position.size):
            z = min(1.0, max(-1.0, z + (position[k] - before) / delta))
            before = position[k]
            out[k] = z
