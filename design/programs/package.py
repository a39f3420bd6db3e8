"""Programs of a campaign for one controller, the clients that run them, and a page for whoever stands at the robot."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from excitor.design.programs.facts import Facts, LimitLine, overrun
from excitor.design.programs.plan import Plan, Stretches
from excitor.design.programs.run_json import run_json
from excitor.design.programs.target import (
    DRY,
    NO_GO,
    POSES,
    UNPROVEN,
    CannotDrive,
    Emitter,
    Target,
    axes_of,
    check,
    comment,
    file_text,
    fitting_steps,
    fixed,
    program_names,
    site_numbers,
    to_axes,
)
from excitor.robots.arrays import FloatArray
from excitor.robots.dynamics import frame_pose

PAGE, DRAWING = "README.md", "README.svg"


@dataclass(frozen=True, eq=False, slots=True)
class Program:
    """One program and its files."""

    name: str
    plan: Plan
    files: Mapping[str, str]
    facts: Facts | None = None  # for the operator's page


@dataclass(frozen=True, eq=False, slots=True)
class Package:
    """Everything for one controller."""

    target: Target
    programs: tuple[Program, ...]
    shared: Mapping[str, str]  # clients
    spacing: float | None
    missing: tuple[str, ...] = ()  # why it has no first run at reduced speed

    @property
    def plan(self) -> Plan:
        """The first plan of a run, or of its dry run."""
        return next((one.plan for one in self.programs if not one.plan.poses), self.programs[0].plan)

    @property
    def texts(self) -> dict[str, str]:
        """All files but the page and the manifest, by name."""
        return {name: text for program in self.programs for name, text in program.files.items()} | dict(self.shared)


def package(
    emitter: Emitter,
    plans: Sequence[Plan],
    spacing: float | None = None,
    facts: Sequence[Facts | None] = (),
    missing: tuple[str, ...] = (),
) -> Package:
    """Write the programs of all plans for one controller; raise CannotDrive with what it cannot do."""
    target = emitter.TARGET
    if spacing is not None and target.spacing is None:
        raise CannotDrive(f"{target.name}: evaluates the motion at every control step; --spacing does not apply to it")
    names = program_names_of(plans, target)
    programs = []
    for plan, name, known in zip(plans, names, facts or [None] * len(plans), strict=True):
        if plan.torques is None:
            check(plan, target)
        if plan.poses and not target.poses:
            raise CannotDrive(f"{target.name}: writes no first run through poses at reduced speed yet")
        files = dict(emitter.emit(plan, name, spacing))
        if target.clients and not plan.poses:
            files.setdefault(f"{name}.json", run_json(plan, target))
        programs.append(Program(name, plan, files, known))
    shared = {client: file_text(f"clients/{client}") for client in target.clients}
    return Package(target, tuple(programs), shared, spacing, missing)


def program_names_of(plans: Sequence[Plan], target: Target) -> list[str]:
    """Name programs after their runs; a dry run bears its run's name and `_dry`, a first run `_pos`."""
    runs = list(dict.fromkeys(plan.run for plan in plans))
    named = dict(zip(runs, program_names(runs, target), strict=True))
    return [named[plan.run] + (POSES if plan.poses else DRY if plan.dry else "") for plan in plans]


def encoded_files(made: Package) -> dict[str, bytes]:
    """Encode every file of the folder but the manifest, which has their digests."""
    plain = (".json", ".py", ".csv")
    contents = {
        name: text.encode("utf-8" if name.endswith(plain) else made.target.encoding)
        for name, text in made.texts.items()
    }
    drawn = {DRAWING: drawing.encode()} if (drawing := _drawing(made)) else {}
    return {**contents, PAGE: operator_page(made).encode(), **drawn}


_WIDEST = 700.0  # mm of a drawing that its words take
_VIEWS = (("from above: x right, y up", (0, 1)), ("from the side: x right, z up", (0, 2)))


def _drawing(made: Package) -> str:
    """Draw the space that all programs sweep, in the base frame: volumes at poses along each motion; "" without any."""
    known = [one.facts for one in made.programs if one.facts is not None and one.facts.swept is not None]
    if not known:
        return ""
    drawn = [one.facts for one in made.programs if one.facts in known and not one.plan.dry]  # the others are inside
    box = np.array([np.min([x.swept[0] for x in known], axis=0), np.max([x.swept[1] for x in known], axis=0)])  # type: ignore[index]
    low, high = 1e3 * np.minimum(box[0], 0.0) - 50.0, 1e3 * np.maximum(box[1], 0.0) + 50.0
    body, left, tallest = [], 0.0, float((high - low)[1:].max())
    for title, (i, j) in _VIEWS:
        body.append(f'<g transform="translate({left - low[i]:.0f} {high[j] + 120:.0f})">')
        body += [
            f'<path stroke-width="{2e3 * radius:.0f}" d="{_strokes(1e3 * ends[:, :, [i, j]])}"/>'
            for facts in (drawn or known)
            for radius, ends in facts.trace
        ]
        x0, x1, y0, y1 = (1e3 * float(box[k, axis]) for axis in (i, j) for k in (0, 1))
        body.append(f'<path class="box" d="M{x0:.0f} {-y1:.0f}H{x1:.0f}V{-y0:.0f}H{x0:.0f}Z"/>')
        body.append('<path class="box" d="M-100 0H100M0 -100V100"/>')
        said = (title, f"{x0:.0f} … {x1:.0f}, {y0:.0f} … {y1:.0f} mm")
        body += [
            f'<text x="{low[i]:.0f}" y="{-high[j] - 70 + 45 * k:.0f}">{line}</text>' for k, line in enumerate(said)
        ]
        body.append("</g>")
        left += max(float(high[i] - low[i]), _WIDEST) + 100.0
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left:.0f} {tallest + 140:.0f}" width="1000">'
    style = (
        "<style>path{fill:none;stroke:#8ab;stroke-linecap:round}.box{stroke:#a00;stroke-width:8}"
        "text{font:40px sans-serif}</style>"
    )
    return "\n".join([head, style, '<rect width="100%" height="100%" fill="#fff"/>', *body, "</svg>", ""])


def _strokes(ends: FloatArray) -> str:
    """Write the lines of a volume, (n, 2, 2) mm; the y of a drawing points down."""
    return "".join(f"M{a[0]:.0f} {-a[1]:.0f}L{b[0]:.0f} {-b[1]:.0f}" for a, b in np.round(ends))


_REFUSED = {
    "override": "the speed slider (override) is not at 100 %",
    "mode": "the controller is not in the mode that the program needs",
    "home": "the robot does not stand at the home pose, within 0.5 degrees (1 mm)",
    "payload": "the payload set in the controller is not the plan's",
    "drive": "a drive, or the robot, reports an error",
    "cycle": "the control step is none that the run is written for",
    "logger": "the logger runs already, or does not start",
    "axes": "an axis takes no external set points within 2 s",
}
_DOES = {"slows": "it slows down along its path", "ends": "it commands no more, and the controller stops"}
_NAMED = {  # on pages, unless [site] states another
    r"\bT_ROB1\b": "task", r"\bEXCITOR\.XML\b": "trace", r"\b59152\b": "port", r"\bEXCITOR\b(?!\.XML)": "device",
}  # fmt: skip
_UNLESS_FIRST = dict.fromkeys(("override", "mode"), " (not the program of the poses)")
_CLASSES = {
    "A": "A: the motion is evaluated at every control step",
    "B": "B: a table of points that are passed at stated times; between them the controller joins them",
    "unverified motion": "unverified motion: torques are commanded, and no controller follows a path",
    "unverified": "unverified: nothing has run these programs, not even on a virtual clock",
    "C": "C: way-points; the controller decides when it passes them, and rounds them off",
}


def operator_page(made: "Package") -> str:
    """Write the page, in Markdown."""
    target, plan = made.target, made.plan
    robot = comment(plan.robot.title or plan.robot.name)
    parts = [
        f"# {robot}: programs for {target.title}",
        f"Campaign {comment(plan.campaign)}. {target.scheme[:1].upper()}{target.scheme[1:]}. Timing class "
        f"{_CLASSES[target.timing]}.",
        _no_go(plan),
        _unlimited(plan),
        _unproven(target),
        _unverified(made) if plan.torques is not None else _FIRST_RUNS,
        _section("What it needs", target.needs),
        _held_note(plan),
        _axes_note(plan, target),
        _poses(plan, target),
        _first_runs(made),
        _motions(made),
        _speeds(made),
        _limits(made),
        _stops(made),
        _site(target),
        _section("Load and run", (*target.loading, *_order(made)), numbered=True),
        _section(
            "It refuses to start where",
            tuple(
                _REFUSED[refusal] + _UNLESS_FIRST.get(refusal, "") * (refusal != "mode" or target.manual)
                for refusal in target.refuses
                if refusal != "payload" or any(program.plan.payload is not None for program in made.programs)
            ),
        ),
        _section("It stops by itself, and never goes on, where", tuple(_watched(target)) or (_UNWATCHED,)),
        _section("The log", target.logging),
        _section("What identification must do", (target.advice,) if target.advice else ()),
        _section("Taken for granted", (target.assumed,) if target.assumed else ()),
    ]
    text = "\n\n".join(part for part in parts if part) + "\n"
    for pattern, key in _NAMED.items():
        if key in plan.site:
            text = re.sub(pattern, str(plan.site[key]), text)
    return site_numbers(text, plan.site)


def _unproven(target: Target) -> str:
    if target.timing != "unverified":
        return ""
    return (
        f"**{UNPROVEN}. No interpreter of this language has run these programs: whether they make the planned motion, "
        "refuse what they must, and stop, is not known. The maker's own simulator comes first. Whoever runs them "
        "answers for that.**"
    )


def _watched(target: Target) -> Iterator[str]:
    """List what a program watches while it moves: the last good value, what it does, and how soon."""
    for each in target.conditions.values():
        if each.does:
            limit = f" (good up to {each.limit:g} {each.unit})" if each.limit else ""
            yield f"{each.says}{limit}: {_DOES[each.does]}, from {each.within:g} s later at the latest"


_UNWATCHED = "nothing: once started it looks at nothing but its own motion, and who stands at the robot must stop it"
_FIRST_RUNS = (
    "**No check away from the robot proves that a controller accepts a program. Run the poses first, then the dry "
    "run, then the run, with a hand on the emergency stop. The dry run has 15 % of the amplitude: never replace it "
    "by a lower speed, which is another motion, and which the programs refuse.**"
)


def _unverified(made: "Package") -> str:
    """Say what an unverified motion is, and tabulate its guards and the tube of simulated robots."""
    plan = made.programs[0].plan
    assert plan.torques is not None
    sentence = (
        "**UNVERIFIED MOTION. The torques are certain, the motion is not: no controller follows a path, and the arm "
        f"goes where the torques push it. {plan.torques.n_robots} robots drawn within ±{plan.torques.spread:.0%} of "
        "the prior stayed inside all position and speed limits in simulation; the real arm may differ. "
        "Each program ends with zero torque where a joint leaves its guard, where a reading or the computer is later "
        f"than the watchdog of {1e3 * plan.torques.watchdog:g} ms, and on Ctrl-C: the arm then coasts, and nothing "
        "brakes it. There is no first run at reduced speed. Begin with the dry runs, keep free all that the arm can "
        "reach, and a hand on the emergency stop.**"
    )
    rows = []
    for program in made.programs:
        given = program.plan.torques
        assert given is not None
        for j, name in enumerate(_axis_names_of_joints(plan)):
            low, high, speed, first, last, fastest = (
                _pendant(plan, j, float(x[j])) for x in (*given.tube, given.low, given.high, given.speed)
            )
            push = f"{float(abs(given.tau[:, j]).max()):.3g} of {given.limit[j]:.3g}"
            rows.append([f"`{program.name}`", name, push, f"{low} … {high}", speed, f"{first} … {last}", fastest])
    heads = ["program", "joint", "torque N m (N)", "simulated", "speed /s", "guard", "guard /s"]
    unknown = ", ".join(comment(name) for name in plan.torques.unknown)
    stated = (
        f"**Unknown: nobody states a limit of {unknown}; its guards follow from the simulation.**" if unknown else ""
    )
    return "\n\n".join(part for part in (sentence, stated, "\n".join(_table(heads, rows))) if part)


def _no_go(plan: Plan) -> str:
    """Write the warning that the design is a no-go, with the reasons as escaped text."""
    if not plan.no_go:
        return ""
    reasons = (re.sub(r"([\\`*_<>\[\]|])", r"\\\1", " ".join(reason.split())) for reason in plan.no_go)
    sentence = f"**{NO_GO} (`--allow no-go`). Whoever emitted these programs answers for them. The design is a no-go:**"
    return "\n".join([sentence, "", *(f"* {reason}" for reason in reasons)])


def _unlimited(plan: Plan) -> str:
    if not plan.unlimited:
        return ""
    return (
        f"**UNKNOWN LIMITS. Nobody states an acceleration limit of "
        f"{', '.join(comment(name) for name in plan.unlimited)}: nothing proves that a controller and its drives can "
        "follow. Whoever runs these programs answers for that.**"
    )


def check_poses(plan: Plan) -> FloatArray:
    """Choose three poses to compare with the pendant: home, the start, and where the run is farthest from home."""
    t = np.linspace(0.0, plan.body.duration, 2000)
    q = plan.body.at(t)
    far = q[int(np.argmax(np.abs(q - plan.home).sum(axis=1)))]
    start = plan.start if np.abs(plan.start - plan.home).max() > 1e-3 else q[len(q) // 3]
    return np.array([plan.home, start, far])


def shown(plan: Plan, target: Target, q: FloatArray) -> FloatArray:
    """Map joints to what a pendant shows: degrees and mm, whatever unit the programs are in."""
    return to_axes(plan.robot, replace(target, angle_unit="deg"), q)


def _section(title: str, sentences: tuple[str, ...], numbered: bool = False) -> str:
    if not sentences:
        return ""
    lines = [f"{k}. {line}" if numbered else f"* {line}" for k, line in enumerate(sentences, start=1)]
    return "\n".join([f"## {title}", "", *lines])


def _axes_note(plan: Plan, target: Target) -> str:
    if (target.controller or target.name) in plan.robot.controllers or target.name in ("csv", "ros2", "franka"):
        return ""
    return (
        f"**The robot's file has no `[controllers.{target.controller or target.name}]`: axis k of the controller is "
        "taken to be joint k, with the same zero and sense. The three poses below show whether that is so.**"
    )


def _held_note(plan: Plan) -> str:
    """Say where the joints stand that these programs do not move."""
    at = ", ".join(f"{comment(name)} at {joint}" for name, joint in plan.robot.held.items())
    return f"**Joints that are held: {at}. Bring them there before every run, and keep them there.**" if at else ""


def _poses(plan: Plan, target: Target) -> str:
    axes, names = shown(plan, target, check_poses(plan)), _axis_names(plan, target)
    tool = 1e3 * frame_pose(plan.robot, check_poses(plan))[:, :3, 3]
    rows = [
        [word, *(fixed(x, 2) for x in pose), *(fixed(x, 1) for x in place)]
        for word, pose, place in zip(("home", "start", "far"), axes, tool, strict=True)
    ]
    return "\n".join(
        [
            "## Before anything runs: three poses",
            "",
            "Drive the robot there by hand, slowly, one after the other, where the cell allows it. If the pendant "
            "shows another place of the tool (in the robot's base frame) for these axis values, stop: names, senses "
            "or zeros of the axes are not what the programs take them for.",
            "",
            *_table(["pose", *names, "tool x mm", "y mm", "z mm"], rows),
        ]
    )


def _first_runs(made: "Package") -> str:
    """Write what the programs of the poses do, where they go, and what they leave out."""
    title, target = "## First: the poses, at reduced speed", made.target
    if made.plan.torques is not None:
        return ""  # no controller moves to poses
    mode = "Run it in manual reduced mode (T1), the enabling device held" if target.manual else "Run it at a low speed"
    parts = [
        f"{mode}, and compare what you see with the table. Flange and tool point stay below 250 mm/s by the program "
        "itself, whatever the override: the lines between the poses are proven like those of a run. The robot stops at "
        "each pose; no log is needed. Other modes, overrides, clients and loggers below are for the dry run and the "
        f"run. {target.first_run}".rstrip()
    ]
    known = len(parts)
    for program in made.programs:
        plan = program.plan
        if plan.poses:
            names, axes = _axis_names(plan, target), shown(plan, target, plan.out.knots)
            rows = [
                [str(k), comment(label, 200), *(fixed(x, 1) for x in pose)]
                for k, (label, pose) in enumerate(zip(plan.poses, axes, strict=True))
            ]
            left = [f"* Left out: {comment(each, 200)}." for each in plan.left_out]
            parts.append("\n".join([f"`{program.name}`:", "", *_table(["", "pose", *names], rows), "", *left]).rstrip())
    if len(parts) == known:
        why = "; ".join(made.missing) or "none is proven for this design; excitor emit says why"
        return f"{title}\n\n**There is no program for them: {comment(why, 500)}. Begin with the dry run.**"
    return "\n\n".join([title, *parts])


def _motions(made: "Package") -> str:
    names = _axis_names(made.programs[0].plan, made.target)
    rows = []
    for program in made.programs:
        plan = program.plan
        spans = [np.linspace(0.0, plan.stretch(name).duration, 1500) for name in Stretches]
        q = np.concatenate([plan.stretch(name).at(t) for name, t in zip(Stretches, spans, strict=True)])
        reach = shown(plan, made.target, q)
        total = sum(plan.stretch(name).duration for name in Stretches)
        ranges = [
            f"{fixed(low, 0)} … {fixed(high, 0)}"
            for low, high in zip(reach.min(axis=0), reach.max(axis=0), strict=True)
        ]
        rows.append([f"`{program.name}`", f"{total:.0f} s", *ranges])
    sentence = "Ranges from the home pose through the run and back; keep people and things out of all of it."
    if made.plan.torques is not None:
        sentence = "Ranges of the prior alone; those of other robots, and the guards, are above. Keep all of it free."
    steps = fitting_steps(made.programs[0].plan, made.target) if made.target.spacing is None else ()
    if steps:
        sentence += " Control steps: " + ", ".join(f"{1e3 * step:g} ms" for step in steps) + "."
    return "\n".join(["## What will move, and how far", "", sentence, "", *_table(["program", "takes", *names], rows)])


_STATES = {"holds": "holds", "exceeded": "**exceeded**", "unknown": "**unknown**: nobody states it"}


def _speeds(made: "Package") -> str:
    """Tabulate peak speeds of each program, and the box that the robot sweeps."""
    known = [program for program in made.programs if program.facts is not None]
    if not known:
        return ""
    rows = []
    for program in known:
        facts = program.facts
        assert facts is not None
        joints = [_pendant(program.plan, j, speed) for j, speed in enumerate(facts.speed)]
        box = "unknown" if facts.swept is None else " x ".join(_span(ends) for ends in facts.swept.T)
        rows.append([f"`{program.name}`", *joints, f"{1e3 * facts.tool_speed:.0f}", box])
    heads = ["program", *(f"{name}/s" for name in _axis_names_of_joints(known[0].plan)), "tool mm/s", "swept x y z mm"]
    sentence = (
        "Peaks of each program, ways from and to home included. The box encloses every volume of the robot that the "
        "plan knows, in its base frame: cables, and what the plan was not told, are outside. The drawing shows the "
        "volumes of the runs at some poses, with the base at the cross."
    )
    picture = [] if known[0].facts is None or known[0].facts.swept is None else ["", f"![swept space]({DRAWING})"]
    return "\n".join(["## How fast, and through which space", "", sentence, "", *_table(heads, rows), *picture])


def _limits(made: "Package") -> str:
    """Tabulate the tightest of each limit over all programs: holds, exceeded or unknown."""
    tightest: dict[tuple[str, int], LimitLine] = {}
    for program in made.programs:
        own = made.target.limits(program.plan) if made.target.limits and program.facts is not None else ()
        for line in (*program.facts.lines, *own) if program.facts is not None else ():
            old = tightest.get(line.key)
            if old is None or (line.left, -line.worst) < (old.left, -old.worst):
                tightest[line.key] = line
    if not tightest:
        return ""
    rows = []
    for line in tightest.values():
        factor, unit, digits = (
            (180.0 / np.pi, "°" + line.unit[3:], 0) if line.unit.startswith("rad") else (1.0, line.unit, 3)
        )
        worst, limit = (
            "" if not np.isfinite(x) else f"{factor * x:.{digits}f}" if digits == 0 else f"{x:.{digits}g}"
            for x in (line.worst, line.limit)
        )
        rows.append([comment(line.name), worst, limit, unit, _STATES[line.state]])
    sentence = (
        "The worst of all programs by the plan's model, against what the robot's file, its preset and the campaign "
        "allow. Unknown is not held: what the controller itself enforces there may stop a run, or change it."
    )
    return "\n".join(["## Limits", "", sentence, "", *_table(["limit", "worst", "allowed", "unit", ""], rows)])


def _stops(made: "Package") -> str:
    """Say how far each joint still moves where the program stops by itself."""
    target, names = made.target, _axis_names_of_joints(made.programs[0].plan)
    vendor = (
        "Stops of category 0 and 1, and the controller's own pause: unknown here; see the robot's manual for stopping "
        "times and distances at the speeds above."
    )
    if made.plan.torques is not None:
        return f"## Stops\n\n* Its own stop is zero torque: the arm coasts and falls, maybe to its stops.\n* {vendor}"
    if not target.stop_s:
        return f"## Stops\n\n* The program has no stop of its own; the controller's applies.\n* {vendor}"
    plans = [program.plan for program in made.programs if not program.plan.dry] or [made.programs[0].plan]
    quick = f" within {target.stop_s:g} s" if not target.stop_braking else ""
    over = np.max([overrun(plan, target) for plan in plans], axis=0)
    joints = ", ".join(
        f"{name} {_pendant(plans[0], j, x)}" for j, (name, x) in enumerate(zip(names, over, strict=True))
    )
    return (
        f"## Stops\n\n* Its own stop slows down along the path{quick}, and never goes on. At the "
        f"worst moment the joints still move by: {joints}.\n* {vendor}"
    )


def _site(target: Target) -> str:
    """Write what whoever stands at the robot must see to."""
    return f"""## At the robot

* The cell's risk assessment (ISO 10218-2:2025; of the robot itself ISO 10218-1:2025) comes before these pages, which
  replace none of it. Nobody is inside the safeguarded space while a program runs; the enabling device, where the mode
  has one, is in hand.
* Set the controller's safety functions ({target.safety}) for the speeds, spaces and stops of this page before the first
  run, and see them stop the robot once.
* Hoses and cables must reach every pose above, with slack at the largest range of each joint.
* After any stop look at brakes and cables. Move the robot by jogging, or by hand where it is made for that; never
  push against its brakes, and never release one without holding what it carries. Begin again from home."""


def _span(ends: FloatArray) -> str:
    return f"{1e3 * ends[0]:.0f} … {1e3 * ends[1]:.0f}"


def _pendant(plan: Plan, j: int, value: float) -> str:
    """Degrees, or millimetres of a sliding joint."""
    return fixed(1e3 * value if plan.robot.mechanism.prismatic[j] else float(np.degrees(value)), 0)


def _axis_names_of_joints(plan: Plan) -> list[str]:
    return [
        f"{comment(name)} {'mm' if slides else '°'}"
        for name, slides in zip(plan.robot.joint_names, plan.robot.mechanism.prismatic, strict=True)
    ]


def _order(made: "Package") -> tuple[str, ...]:
    lines = []
    carried = None
    for program in made.programs:
        plan = program.plan
        if carried is not None and plan.payload is not None and (plan.payload > 0.0) != (carried > 0.0):
            lines.append(
                f"Mount the load, and declare {plan.payload:g} kg to the controller."
                if plan.payload > 0.0
                else "Take the load off, and declare none to the controller."
            )
        carried = plan.payload
        payload = "" if plan.payload is None else f", with {plan.payload:g} kg on the flange as the campaign states it"
        if plan.payload_center is not None:
            x, y, z = (f"{1e3 * c:.4g}" for c in plan.payload_center)
            payload += f" (its centre at {x}, {y}, {z} mm in the tool's frame; no program checks that)"
        what = f"the dry run of {comment(plan.run)}" if plan.dry else f"{comment(plan.run)} ({plan.role})"
        what = f"the poses of {comment(plan.run)}, at reduced speed and any override" if plan.poses else what
        lines.append(f"Run `{program.name}`: {what}{payload}.")
    return tuple(lines)


def _axis_names(plan: Plan, target: Target) -> list[str]:
    return [
        f"{comment(name)} {'mm' if slides else '°'}"
        for name, slides in zip(axes_of(plan.robot, target).names, plan.robot.mechanism.prismatic, strict=True)
    ]


def _table(heads: list[str], rows: list[list[str]]) -> list[str]:
    return [
        "| " + " | ".join(heads) + " |",
        "|" + " --- |" * len(heads),
        *("| " + " | ".join(row) + " |" for row in rows),
    ]
