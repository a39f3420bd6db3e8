"""Variation of motions in a memetic search: recombination, mutation, and distances modulo the problem's symmetries."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from excitor.robots.arrays import BoolArray, FloatArray, IntArray

_PHASES = 48  # of a period, from the best of which an alignment is refined
_CROSSED = 0.6  # of all children
_NICHE = 0.35 / np.sqrt(66.0)  # times √n_design: nearer ones are the same motion

Operator = Callable[["Genes", FloatArray, FloatArray, np.random.Generator], FloatArray]


@dataclass(frozen=True, eq=False, slots=True)
class Genes:
    """What each design variable is, and which maps of all of them change nothing (or almost)."""

    joint: IntArray  # (n_design,)
    wave: IntArray  # (n_design,): a harmonic's number; -1 of centres, poses and constants
    sines: IntArray  # (n_moving, n_harmonics), indices; without rows where a shift in time has no such form
    cosines: IntArray
    harmonics: FloatArray  # (n_harmonics,)
    signs: FloatArray  # (n_maps, n_design): x → sign x + offset; the first one is the identity
    offsets: FloatArray
    weight: FloatArray  # (n_design,): 0 of centres that do not matter

    @property
    def radius(self) -> float:
        """Distance below which two motions are the same."""
        return float(_NICHE * np.sqrt(self.joint.size))

    def phasors(self, X: FloatArray) -> FloatArray:
        """Write waves as q = Re Σ z exp(i k θ), (..., n_moving, n_harmonics)."""
        return np.asarray(X[..., self.cosines] - 1j * X[..., self.sines])

    def shifted(self, x: FloatArray, phase: float) -> FloatArray:
        """Shift a motion in time, by a phase of the fundamental."""
        z, out = self.phasors(x) * np.exp(1j * self.harmonics * phase), x.copy()
        out[self.cosines], out[self.sines] = z.real, -z.imag
        return out


def distances(genes: Genes, x: FloatArray, others: FloatArray) -> tuple[FloatArray, IntArray, FloatArray]:
    """Measure how far x is from others (n, n_design), over all shifts and symmetries of x: distance, map, phase."""
    images = genes.signs * x + genes.offsets
    rest = (genes.wave < 0) | (not genes.sines.size)
    square = np.sum(((images[:, None] - others) * genes.weight)[:, :, rest] ** 2, axis=2)
    phase = np.zeros(square.shape)
    if genes.sines.size:
        ours, theirs, k = genes.phasors(images), genes.phasors(others), genes.harmonics
        product = np.einsum("nmh,vmh->vnh", np.conj(theirs), ours)
        grid = np.linspace(0.0, 2.0 * np.pi, _PHASES, endpoint=False)
        phase = grid[(product @ np.exp(1j * np.outer(k, grid))).real.argmax(axis=2)]
        turned = product * np.exp(1j * k * phase[:, :, None])
        bend = -(turned.real @ k**2)
        phase -= np.where(bend < 0.0, -(turned.imag @ k) / np.where(bend < 0.0, bend, 1.0), 0.0)  # Newton's step
        square += np.sum(np.abs(ours) ** 2, axis=(1, 2))[:, None] + np.sum(np.abs(theirs) ** 2, axis=(1, 2))
        square -= 2.0 * (product * np.exp(1j * k * phase[:, :, None])).real.sum(axis=2)
    image = square.argmin(axis=0)
    column = np.arange(len(others))
    return np.sqrt(np.maximum(square[image, column], 0.0)), image, phase[image, column]


def aligned(genes: Genes, x: FloatArray, other: FloatArray) -> FloatArray:
    """Return the image of x that is nearest to another motion."""
    _, (image,), (phase,) = distances(genes, x, other[None])
    moved = genes.signs[image] * x + genes.offsets[image]
    return genes.shifted(moved, phase) if genes.sines.size else moved


def distinct(genes: Genes, X: FloatArray, order: IntArray, most: int) -> list[int]:
    """Choose the first of each niche, in the given order (best first), at most so many."""
    kept: list[int] = []
    for k in order.tolist():
        if len(kept) == most:
            break
        if not kept or distances(genes, X[k], X[kept])[0].min() > genes.radius:
            kept.append(k)
    return kept


def varied(genes: Genes, a: FloatArray, b: FloatArray | None, random: np.random.Generator) -> FloatArray:
    """Make a child of a: with parts of b, aligned to it, or by a mutation."""
    if b is not None and random.random() < _CROSSED:
        return CROSSOVERS[random.integers(len(CROSSOVERS))](genes, a, aligned(genes, b, a), random)
    return MUTATIONS[random.integers(len(MUTATIONS))](genes, a, a, random)


def _some(random: np.random.Generator, n: int) -> BoolArray:
    """Draw about half of n, neither none nor all where n > 1."""
    chosen = random.random(n) < 0.5
    if chosen.all() or not chosen.any():
        chosen[random.integers(n)] ^= True
    return chosen


def _places(of: IntArray) -> tuple[IntArray, IntArray]:
    """Return the different numbers, and the place of each variable's among them."""
    found, place = np.unique(of, return_inverse=True)
    return found, place


def _joints(genes: Genes, a: FloatArray, b: FloatArray, random: np.random.Generator) -> FloatArray:
    """Take whole joints of b."""
    found, place = _places(genes.joint)
    return np.where(_some(random, found.size)[place], b, a)


def _block(genes: Genes, a: FloatArray, b: FloatArray, random: np.random.Generator) -> FloatArray:
    """Take the wrist of b: all joints from some joint on."""
    found, place = _places(genes.joint)
    return np.where(place >= random.integers(1, max(2, found.size)), b, a)


def _harmonics(genes: Genes, a: FloatArray, b: FloatArray, random: np.random.Generator) -> FloatArray:
    """Take whole harmonics of b."""
    chosen = np.append(_some(random, int(genes.wave.max()) + 1), False)
    return np.where(chosen[genes.wave], b, a)


def _cells(genes: Genes, a: FloatArray, b: FloatArray, random: np.random.Generator) -> FloatArray:
    """Take single harmonics of single joints, and single centres, of b."""
    cell = (int(genes.wave.max()) + 2) * genes.joint + genes.wave
    found, place = _places(cell)
    return np.where((random.random(found.size) < 0.3)[place], b, a)


def _line(genes: Genes, a: FloatArray, b: FloatArray, random: np.random.Generator) -> FloatArray:
    """Blend the motions."""
    return np.asarray(a + random.uniform(0.25, 0.75) * (b - a))


def _swung(genes: Genes, random: np.random.Generator) -> BoolArray:
    """Mark the waves of one joint."""
    return np.asarray((genes.joint == random.choice(genes.joint[genes.wave >= 0])) & (genes.wave >= 0))


def _delay(genes: Genes, a: FloatArray, _: FloatArray, random: np.random.Generator) -> FloatArray:
    """Shift one joint in time."""
    if not genes.sines.size:
        return _gauss(0.1)(genes, a, a, random)
    return np.where(_swung(genes, random), genes.shifted(a, random.uniform(0.3, 2.0 * np.pi - 0.3)), a)


def _flip(genes: Genes, a: FloatArray, _: FloatArray, random: np.random.Generator) -> FloatArray:
    """Turn one joint's swing round."""
    return np.where(_swung(genes, random), -a, a)


def _swap(genes: Genes, a: FloatArray, _: FloatArray, random: np.random.Generator) -> FloatArray:
    """Exchange two harmonics of one joint."""
    out, own, count = a.copy(), _swung(genes, random), int(genes.wave.max()) + 1
    if count > 1:
        i, k = random.choice(count, 2, replace=False)
        one, other = own & (genes.wave == i), own & (genes.wave == k)
        out[one], out[other] = a[other], a[one]
    return out


def _anew(genes: Genes, a: FloatArray, _: FloatArray, random: np.random.Generator) -> FloatArray:
    """Draw one joint's swing anew."""
    return np.where(_swung(genes, random), random.uniform(-1.0, 1.0, a.size), a)


def _recentre(genes: Genes, a: FloatArray, _: FloatArray, random: np.random.Generator) -> FloatArray:
    """Move one centre that matters."""
    out, centres = a.copy(), np.flatnonzero((genes.wave < 0) & (genes.weight > 0.0))
    if centres.size:
        out[random.choice(centres)] = random.uniform(-0.7, 0.7)
    return out


def _gauss(size: float) -> Operator:
    def disturb(genes: Genes, a: FloatArray, _: FloatArray, random: np.random.Generator) -> FloatArray:
        return np.asarray(a + size * random.normal(size=a.size))

    return disturb


CROSSOVERS: tuple[Operator, ...] = (_joints, _block, _harmonics, _cells, _line)
MUTATIONS: tuple[Operator, ...] = (_delay, _flip, _swap, _anew, _recentre, _gauss(0.05), _gauss(0.1))
