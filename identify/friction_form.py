"""Choice of the form of friction, joint by joint, by how well torques of held-out blocks of motion are predicted.

A form is the width over which s(v) turns, and terms of the friction table beside the stated ones, at most one of each
shape. Stated terms stay. All forms of a joint are tried while the other joints keep theirs: with C the columns that
stay and E those of the joint's forms, τ - C β = (E - C K) e + …, K = (CᵀC)⁻¹ Cᵀ E, is small for every block and fold.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from excitor.identify.band import percent
from excitor.identify.estimate import compress, wls
from excitor.identify.regression import Regression, Rows
from excitor.identify.samples import Samples
from excitor.robots.arrays import BoolArray, FloatArray, IntArray, one_blas_thread
from excitor.robots.errors import ExcitorError, RankDeficient
from excitor.robots.friction import TABLE, friction_model
from excitor.robots.parameters import with_friction
from excitor.robots.robot import FrictionTerm, Robot

WIDTHS = tuple(0.01 * 1.5**k for k in range(9))  # of s(v), as shares of the joint's rms speed
BLOCKS, FOLDS = 20, 5
LEAST = 3  # equations a parameter; fewer choose nothing
SURE = 3.0  # standard errors of the paired difference, by which another form has to beat the stated one
WORTH = 0.02  # of the error, at least
ALIKE = 0.05  # of the best form's error: a simpler form that costs no more is taken
RIDGE = 1e-9  # of columns of norm 1
SPEEDS = np.geomspace(0.02, 3.0, 12)  # shares of the rms speed, at which friction has to brake
STATED = "as stated"
KEYS: dict[str, Any] = {"parameter": str, "model": str, "width": float, "scale": float, "warm_up": int}  # of a term
Choice = Mapping[str, Any]  # the forms of all joints with their alternatives, as in model.json
RULE = (
    "Of the forms that predict the torques of held-out blocks of motion within one standard error of the best, or "
    f"{100 * ALIKE:g} % of its error, each joint has the simplest; the stated one stays unless another is better by "
    f"{SURE:g} standard errors."
)


@dataclass(frozen=True, slots=True)
class Form:
    """What friction has beside the stated terms: another width of s(v), None for the stated one, and more terms."""

    width: float | None  # as a share of the joint's rms speed, as are scales
    added: tuple[tuple[str, float], ...]  # rows of the friction table

    @property
    def size(self) -> int:
        """How many numbers it has beyond the stated form's."""
        return (self.width is not None) + sum(1 + (scale > 0.0) for _, scale in self.added)

    @property
    def kind(self) -> str:
        """What distinguishes it, without numbers."""
        return " + ".join(["width"] * (self.width is not None) + [name for name, _ in self.added]) or STATED

    def terms(self, stated: Sequence[FrictionTerm], speed: float) -> tuple[FrictionTerm, ...]:
        """List all terms of a joint with this form."""
        width = next((term.width for term in stated if friction_model(term).reverses), 0.0)
        width = width if self.width is None else _rounded(self.width * speed)
        own = [replace(term, width=width) if friction_model(term).reverses else term for term in stated]
        like, row = stated[0], friction_model(stated[0])
        number = like.parameter.removeprefix(row.prefix) if row.prefix else f"_{like.parameter}"
        for name, scale in self.added:
            more = TABLE[name]
            term = replace(like, parameter=f"{more.prefix or more.name}{number}", model=name, warm_up=0)
            own.append(replace(term, width=width if more.reverses else 0.0, scale=_rounded(scale * speed) or 1.0))
        return tuple(own)


def _rounded(x: float) -> float:
    return float(f"{x:.2g}")


def sentence_of(chosen: Choice) -> str:
    """Say which joints' friction has another form than stated."""
    words = [
        f"{joint['joint']}: {joint['form']} (as stated {percent(one['error'])} error)"
        for joint in chosen["joints"]
        for one in joint["tried"][1:]
        if not joint["as_stated"] and one["kind"] == STATED
    ]
    rest = "" if len(words) == len(chosen["joints"]) else "; other joints as stated"
    none = "friction as stated: no other form predicts held-out blocks surely better"
    return f"friction chosen by the torques of held-out blocks: {', '.join(words)}{rest}" if words else none


def formed(robot: Robot, chosen: Choice | None) -> Robot:
    """Give a robot the friction that a model.json has chosen; ExcitorError where it is not of this robot."""
    friction = list(robot.drive.friction)
    for joint in [] if chosen is None else chosen["joints"]:
        try:
            if joint["as_stated"]:
                continue
            place = next(k for k, term in enumerate(friction) if term.parameter == joint["like"])
            like = friction[place]
            new = [replace(like, **{key: kind(entry[key]) for key, kind in KEYS.items()}) for entry in joint["terms"]]
            _ = [friction_model(term) for term in new]
        except (KeyError, TypeError, ValueError, StopIteration):
            name = str(joint.get("joint", ""))[:80]
            raise ExcitorError(
                f"the chosen friction of joint {name!r} is not one of {robot.name}; identify again"
            ) from None
        kept = [term for term in friction if _direction(term) != _direction(like)]
        before = sum(_direction(term) != _direction(like) for term in friction[:place])
        friction = [*kept[:before], *new, *kept[before:]]
    return with_friction(robot, friction) if friction != [*robot.drive.friction] else robot


def with_load(robot: Robot, chosen: Choice, joints: Sequence[str], error: float, doubt: float) -> Choice:
    """Add friction that grows with the carried torque to the chosen forms of some joints.

    `error` is that of held-out blocks without it over that with it, `doubt` the standard errors that it is larger by.
    """
    entries, row = [], TABLE["load"]
    for entry in chosen["joints"]:
        like = next((term for term in robot.drive.friction if term.parameter == entry["like"]), None)
        if entry["joint"] not in joints or like is None:
            entries.append(entry)
            continue
        prefix = friction_model(like).prefix
        number = like.parameter.removeprefix(prefix) if prefix else f"_{like.parameter}"
        width = next((term["width"] for term in entry["terms"] if TABLE[term["model"]].reverses), 0.0)
        term = {"parameter": f"{row.prefix or row.name}{number}", "model": "load", "width": width}
        form = "load" if entry["as_stated"] else f"{entry['form']}, load"
        first = {"kind": form, "form": form, "error": 1.0, "doubt": 0.0}
        before = [one | {"error": round(one["error"] * error, 5), "doubt": round(doubt, 2)} for one in entry["tried"]]
        terms = [*entry["terms"], term | {"scale": 1.0, "warm_up": 0}]
        entries.append(entry | {"form": form, "as_stated": False, "terms": terms, "tried": [first, *before]})
    return {**chosen, "joints": entries}


def _direction(term: FrictionTerm) -> bytes:
    return term.senses.tobytes() + term.acts.tobytes()


@dataclass(frozen=True, eq=False, slots=True)
class _Group:
    """Friction of one direction: its stated terms, its forms, and the columns of each form."""

    joint: str
    unit: str  # of its speed
    stated: tuple[FrictionTerm, ...]
    speed: float  # rms
    forms: tuple[Form, ...]  # the stated one first
    terms: tuple[tuple[FrictionTerm, ...], ...]  # of each form
    columns: tuple[list[int], ...]  # places of each form's terms among all columns


@dataclass(frozen=True, eq=False, slots=True)
class _Sums:
    """Σ w x xᵀ with x = (row, τ), all columns of norm 1, of the equations of each joint and block."""

    size: FloatArray  # (n_columns + 1,): norms of columns and torques
    places: list[IntArray]  # of each joint's columns, τ last
    blocks: list[FloatArray]  # of each joint: of the judged equations, of the fitted ones, (2, n_blocks, n, n)
    always: FloatArray  # of held poses, which are fitted with every block, (n_columns + 1, n_columns + 1)


@one_blas_thread()
def choose_friction(
    robot: Robot, runs: Sequence[Samples], judging: Regression, fitted: Regression, rows: Rows, laps: Sequence[int]
) -> Choice | None:
    """Choose the form of each joint's friction; None where none is stated, or equations are too few.

    `judging` are the runs' equations with those about reversals of friction, `fitted` those of them that are fitted,
    thinned as `rows` say. `laps` are the samples after which each run's motion repeats, 0 for none: a stretch is held
    out in all laps.
    """
    moving = [run for run in runs if not run.static]
    if len(fitted) < LEAST * len(judging.names) or not moving:
        return None
    extra, groups = _groups(robot, moving, judging.names)
    curves = [_curves(run, extra, rows) for run in runs]
    sums = _sums(robot, runs, judging, fitted, extra, (curves, laps)) if groups else None
    if sums is None:
        return None
    chosen, found = [0] * len(groups), dict[int, Choice]()

    def choose(free: Sequence[int]) -> None:
        staying = _staying(groups, chosen, set(free), len(judging.names))
        forms, number = _chosen(sums, [groups[k] for k in free], staying)
        if number or len(free) == 1:
            found.update(zip(free, forms, strict=True))
            chosen[free[0]] = number

    for k in range(len(groups)):
        choose([k])
    for k in range(len(groups) if any(chosen) else 0):  # beside the others' new forms
        choose([k])
    together = [k for k in found if not chosen[k] and groups[k].forms == groups[0].forms]
    if len(together) > 1:
        choose(together)
    return {"rule": RULE, "joints": [found[k] for k in sorted(found)]}


def _groups(robot: Robot, runs: Sequence[Samples], names: Sequence[str]) -> tuple[list[FrictionTerm], list[_Group]]:
    """List the directions of friction with their forms, and all terms that forms have beside those of the names."""
    extra: list[FrictionTerm] = []
    groups: list[_Group] = []
    directions = dict.fromkeys(map(_direction, robot.drive.friction))
    for direction in directions:
        stated = tuple(term for term in robot.drive.friction if _direction(term) == direction)
        shared = {term.parameter for term in robot.drive.friction if _direction(term) != direction}
        models = [friction_model(term) for term in stated]
        plain = all(not (row.load or row.memory) and row.compiled is not None for row in models)
        if not plain or shared & {term.parameter for term in stated} or not {t.parameter for t in stated} <= {*names}:
            continue
        speed = float(np.sqrt(np.mean(np.concatenate([run.motion.dq @ stated[0].senses for run in runs]) ** 2)))
        if speed <= 0.0:
            continue
        forms, columns = tuple(_forms(stated)), []
        terms = tuple(form.terms(stated, speed) for form in forms)
        place = {(term.model, term.width, term.scale): names.index(term.parameter) for term in stated}
        for of_form in terms:
            for term in of_form:
                key = (term.model, term.width, term.scale)
                if key not in place:
                    place[key] = len(names) + len(extra)
                    extra.append(term)
            columns.append([place[term.model, term.width, term.scale] for term in of_form])
        j = int(np.argmax(np.abs(stated[0].acts)))
        unit = "m/s" if robot.mechanism.prismatic[j] else "rad/s"
        groups.append(_Group(robot.joint_names[j], unit, stated, speed, forms, terms, tuple(columns)))
    return extra, groups


def _forms(stated: Sequence[FrictionTerm]) -> Iterator[Form]:
    """List the forms beside stated terms: widths, and at most one more term of each shape that is not stated."""
    models = [friction_model(term) for term in stated]
    options: dict[str, list[tuple[tuple[str, float], ...]]] = {}
    for row in TABLE.values():
        if row.shape not in {model.shape for model in models}:
            options.setdefault(row.shape, [()]).extend([((row.name, scale),) for scale in row.tried])
    for added in product(*options.values()):
        together = tuple(term for some in added for term in some)
        turns = any(model.reverses for model in [*models, *(TABLE[name] for name, _ in together)])
        for width in (None, *WIDTHS) if turns else (None,):
            yield Form(width, together)


def _sums(
    robot: Robot, runs: Sequence[Samples], judging: Regression, fitted: Regression, extra: Sequence[FrictionTerm],
    along: tuple[Sequence[FloatArray], Sequence[int]],
) -> _Sums | None:  # fmt: skip
    """Sum squares and products over blocks; None where they are too few, or the stated model has no rank."""
    curves, laps = along
    try:
        sigma = wls(compress(fitted)).group_sigma
    except (RankDeficient, ValueError):
        return None
    block, kept = _blocks(judging, runs, laps), np.isin(_key(judging, judging), _key(fitted, judging))
    n_blocks, n, p = int(block.max()) + 1, len(judging.names), len(judging.names) + len(extra)
    if n_blocks < 2 * FOLDS:
        return None
    size, always = np.zeros(p + 1), np.zeros((p + 1, p + 1))
    places, sums = list[IntArray](), list[FloatArray]()
    for j in range(robot.n_joints):
        own = [k for k, term in enumerate(extra) if term.acts[j] != 0.0]
        at = np.array([*range(n), *(n + k for k in own), p])
        G = np.zeros((2, n_blocks, len(at), len(at)))
        for number in range(len(runs)):
            mine = np.flatnonzero((judging.joint == j) & (judging.run == number))
            more = curves[number][judging.sample[mine]][:, own] * [extra[k].acts[j] for k in own]
            weight = 1.0 / max(sigma.get((j, number), sigma.get((j, -1), np.inf)), 1e-300)
            x = weight * np.column_stack([judging.W[mine], more, judging.y[mine]])
            for b in np.unique(block[mine]):
                here = block[mine] == b
                every, learnt = x[here], x[here & kept[mine]]
                if b >= 0:
                    G[:, b] += [every.T @ every, learnt.T @ learnt]
                else:
                    always[np.ix_(at, at)] += every.T @ every
        size[at] += np.diag(G[1].sum(axis=0))
        places.append(at)
        sums.append(G)
    size = np.sqrt(size + np.diag(always)) + 1e-150
    sums = [G / np.outer(size[at], size[at]) for at, G in zip(places, sums, strict=True)]
    return _Sums(size, places, sums, always / np.outer(size, size))


def _key(regression: Regression, like: Regression) -> IntArray:
    """Return a number of each equation, by run, sample and joint."""
    place = regression.run * (int(like.sample.max()) + 1) + regression.sample
    return np.asarray(place * len(like.joint_names) + regression.joint)


def _curves(run: Samples, terms: Sequence[FrictionTerm], rows: Rows) -> FloatArray:
    """Evaluate friction along a run, thinned like its equations, (n_samples, n_terms)."""
    q, dq, nothing = run.motion.q, run.motion.dq, np.zeros(len(run))
    g = [friction_model(term).column(term, q @ term.senses, dq @ term.senses, nothing) for term in terms]
    curves = np.column_stack(g) if g else np.empty((len(run), 0))
    return curves if rows.decimate is None or run.static else np.asarray(rows.decimate(curves))


def _blocks(regression: Regression, runs: Sequence[Samples], laps: Sequence[int]) -> IntArray:
    """Give equations the numbers of their blocks: a stretch of a run, in all of its laps; -1: a held pose."""
    block = np.full(len(regression), -1)
    total, first = sum(len(run) for run in runs if not run.static), 0
    for number, (run, lap) in enumerate(zip(runs, laps, strict=True)):
        own = np.flatnonzero(regression.run == number)
        if run.static or not own.size:
            continue
        count = max(1, round(BLOCKS * len(run) / total))
        place = regression.sample[own] / (regression.sample[own].max() + 1.0) * len(run)
        length = lap or len(run)
        block[own] = first + (count * (place % length) / length).astype(int)
        first += count
    return block


def _staying(groups: Sequence[_Group], chosen: Sequence[int], free: set[int], n_names: int) -> list[int]:
    """List the columns that stay while some groups' forms are tried: the bodies', and the others' present friction."""
    friction = {column for group in groups for columns in group.columns for column in columns}
    now = {column for k, group in enumerate(groups) if k not in free for column in group.columns[chosen[k]]}
    return [k for k in range(n_names) if k not in friction or k in now] + sorted(k for k in now if k >= n_names)


def _chosen(sums: _Sums, groups: Sequence[_Group], staying: Sequence[int]) -> tuple[list[Choice], int]:
    """Choose one form for groups whose forms are the same, and return its number."""
    forms = groups[0].forms
    own = sorted({column for group in groups for columns in group.columns for column in columns})
    joints = np.flatnonzero(np.any([group.stated[0].acts != 0.0 for group in groups], axis=0))
    fitted, judged = _reduced(sums, list(staying), own, joints)
    errors, sound = np.empty((len(forms), len(judged))), np.ones(len(forms), dtype=bool)
    for f in range(len(forms)):
        columns = [k for group in groups for k in group.columns[f]]
        at = [own.index(k) for k in columns]
        A = fitted[np.ix_(range(len(fitted)), at, at)] + RIDGE * np.eye(len(at))
        e = np.linalg.solve(A, fitted[:, at, -1:])[:, :, 0]
        u = np.column_stack([-e[:-1], np.ones(FOLDS)])[np.arange(len(judged)) % FOLDS]
        products = judged[np.ix_(range(len(judged)), [*at, -1], [*at, -1])]
        errors[f] = np.maximum(np.einsum("bi,bij,bj->b", u, products, u), 1e-300)
        if errors[f].sum() < errors[0].sum():
            sound[f] = _brakes(groups, f, e[-1] / sums.size[columns])
    best = _best(errors, sound, [form.size for form in forms])
    of_kind = {forms[f].kind: f for f in np.argsort(-errors.sum(axis=1)).tolist() if sound[f]}
    of_kind[forms[best].kind] = best
    listed = sorted({*of_kind.values()} - {best}, key=lambda f: float(errors[f].sum()))
    return [_form_of(group, best, listed, errors, len(groups) > 1) for group in groups], best


def _form_of(group: _Group, best: int, others: Sequence[int], errors: FloatArray, pooled: bool) -> Choice:
    """Describe the choice of a group; errors are those of the joint's torques over the chosen form's."""
    ratio = np.sqrt(errors.sum(axis=1) / errors[best].sum())
    doubts = [_doubt(errors[f], errors[best]) for f in (best, *others)]
    tried = [
        {
            "kind": group.forms[f].kind,
            "form": _words(group, f),
            "error": round(float(ratio[f]), 5),
            "doubt": round(x, 2),
        }
        for f, x in zip((best, *others), doubts, strict=True)
    ]
    terms = [{key: getattr(term, key) for key in KEYS} for term in group.terms[best]]
    head = {"joint": group.joint, "like": group.stated[0].parameter, "form": _words(group, best), "pooled": pooled}
    return head | {"as_stated": best == 0, "terms": terms, "tried": tried}


def _reduced(sums: _Sums, staying: list[int], own: list[int], joints: IntArray) -> tuple[FloatArray, FloatArray]:
    """Eliminate the staying columns: what is left of own columns and τ, of each fit, and of each block of some joints.

    The fits are those to the blocks of other folds, and the one to all.
    """
    z, folds = [*own, len(sums.size) - 1], np.arange(sums.blocks[0].shape[1]) % FOLDS
    judged = np.zeros((len(folds), len(z), len(z)))
    fits = []
    for f in range(FOLDS + 1):
        A = sums.always.copy()
        for at, products in zip(sums.places, sums.blocks, strict=True):
            A[np.ix_(at, at)] += products[1, folds != f].sum(axis=0)
        K = np.linalg.solve(A[np.ix_(staying, staying)] + RIDGE * np.eye(len(staying)), A[np.ix_(staying, z)])
        fits.append(A[np.ix_(z, z)] - A[np.ix_(z, staying)] @ K)
        T = np.zeros((len(sums.size), len(z)))
        T[staying], T[z, range(len(z))] = -K, 1.0
        for j in joints:
            T_j = T[sums.places[j]]
            judged[folds == f] += T_j.T @ sums.blocks[j][0, folds == f] @ T_j
    return np.array(fits), judged


def _best(errors: FloatArray, sound: BoolArray, sizes: Sequence[int]) -> int:
    """Choose the simplest form within one standard error of the best, where it is surely better than the stated one."""
    total = errors.sum(axis=1)
    worth = sound & (total < (1.0 - WORTH) ** 2 * total[0])
    better = [f for f in np.flatnonzero(worth).tolist() if _doubt(errors[0], errors[f]) > SURE]
    if not better:
        return 0
    best = min(better, key=lambda f: float(total[f]))
    within = [
        f for f in better if total[f] <= (1.0 + ALIKE) ** 2 * total[best] or _doubt(errors[f], errors[best]) <= 1.0
    ]
    return int(min(within, key=lambda f: (sizes[f], total[f])))


def _doubt(errors: FloatArray, better: FloatArray) -> float:
    """Mean over blocks of the logarithm of errors over better ones, over its standard error."""
    ratio = np.log(errors[better > 1e-290] / better[better > 1e-290])
    spread = float(ratio.std(ddof=1)) / np.sqrt(len(ratio)) if len(ratio) > 2 else np.inf
    return float(ratio.mean() / spread) if spread > 0.0 else 0.0


def _brakes(groups: Sequence[_Group], form: int, values: FloatArray) -> bool:
    """Whether friction brakes at all speeds, and no term drives that cannot."""
    values, at = np.asarray(values), 0
    for group in groups:
        terms = group.terms[form]
        own, at = values[at : at + len(terms)], at + len(terms)
        v, rows = group.speed * SPEEDS, [friction_model(term) for term in terms]
        braking = [
            (row.column(term, v, v, v), F) for row, term, F in zip(rows, terms, own, strict=True) if row.dissipates
        ]
        new = zip(rows[len(group.stated) :], own[len(group.stated) :], strict=True)
        if np.any(sum(g * F for g, F in braking) < 0.0) or any(row.sign == "positive" and F < 0.0 for row, F in new):
            return False
    return True


def _words(group: _Group, form: int) -> str:
    """Describe a form by what it has beside the stated terms."""
    chosen, terms = group.forms[form], group.terms[form]
    width = next((term.width for term in terms if friction_model(term).reverses), 0.0)
    said = [f"sign over {width:g} {group.unit}"] * (chosen.width is not None)
    more = terms[len(group.stated) :]
    said += [f"{t.model} of {t.scale:g} {group.unit}" if TABLE[t.model].needs_scale else t.model for t in more]
    return ", ".join(said) or STATED
