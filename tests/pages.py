"""A plan as a campaign would make it, pages read back, and pages opened in a browser."""

import base64
import hashlib
import json
import math
import shutil
import subprocess
from html.parser import HTMLParser

import numpy as np
import pytest

from excitor.robots.base import base_parameters
from excitor.robots.dynamics import inverse_dynamics, link_poses, regressor
from excitor.robots.load import load
from excitor.robots.robot import Motion

ATTACK = "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
VOID = {"meta", "input", "br", "img", "link", "hr"}


def robot_plan(source="tx40", *, frames=200, samples=500):
    """Lay out a plan for a catalogue robot that moves on sinusoids."""
    robot = load(source)
    units = ["m" if slides else "rad" for slides in robot.mechanism.prismatic]
    return {
        "name": "my-cell",
        "version": "0.1.0",
        "campaign_text": f'# What a person writes\n[robot]\nname = "{source}"\n\n[excitation]\nperiod = 10.0 # s\n',
        "robot": {"name": robot.name, "title": robot.title, "joints": list(robot.joint_names), "units": units},
        "verdict": {
            "go": True,
            "reasons": [
                "All limits are proven to hold, ramps and the ways from and to home included.",
                "The torque error that is to be expected is 1.2 % of the torques, below the 3 % asked for.",
            ],
        },
        "zones": zones(),
        "base_capsules": [
            {"start": list(capsule.start), "end": list(capsule.end), "radius": capsule.radius}
            for capsule in robot.capsules
            if capsule.link < 0
        ],
        "runs": [run_of(robot, frames=frames, samples=samples), static_run(robot)],
        "forecast": forecast(robot),
        "pareto": [
            {
                "condition": 3.2 + 9.0 / (k + 2),
                "duration_s": 20.0 + 6.0 * k,
                "peak_torque_share": 0.9 - 0.04 * k,
                "tool_speed_m_s": 0.5 + 0.3 * math.sin(k),
                "chosen": k == 4,
            }
            for k in range(12)
        ],
    }


def zones():
    T = np.eye(4)
    table, wall, cell, post, guard = (T.copy() for _ in range(5))
    table[:3, 3] = [0.42, -0.05, 0.02]
    wall[:3, :3] = [[0, 0, 1], [1, 0, 0], [0, 1, 0]]
    wall[:3, 3] = [-0.55, 0, 0]
    cell[:3, 3] = [0.1, 0, 0.5]
    post[:3, 3] = [-0.25, 0.45, 0.3]
    guard[:3, 3] = [0.35, 0.4, 0.6]
    made = [
        ("cell", "in", "box", cell, [0.62, 0.62, 0.5], "tool"),
        ("table", "out", "box", table, [0.15, 0.25, 0.02], "all"),
        ("wall", "out", "half-space", wall, [0, 0, 0], "links"),
        ("post", "out", "cylinder", post, [0.05, 0.3, 0], "all"),
        ("camera", "out", "sphere", guard, [0.09, 0, 0], "all"),
    ]
    return [
        {"name": name, "keep": keep, "kind": kind, "T": T.tolist(), "size": size, "bodies": bodies}
        for name, keep, kind, T, size, bodies in made
    ]


def envelope(t, end):
    """Rise within 2 s after 1 s of rest, and fall before the end likewise; zero at rest."""
    s = np.clip(np.minimum(t - 1.0, end - 1.0 - t) / 2.0, 0.0, 1.0)
    return s**4 * (35 - 84 * s + 70 * s**2 - 20 * s**3)


def run_of(robot, *, frames, samples):
    end, rng = 27.0, np.random.default_rng(0)
    low, high = robot.limits.position.T
    center = np.where(np.isfinite(low + high), (low + high) / 2, 0.0)
    half = np.where(np.isfinite(high - low), (high - low) / 2, 1.0)
    sines = rng.normal(size=(robot.n_joints, 5)) / np.arange(1, 6)
    cosines = rng.normal(size=(robot.n_joints, 5)) / np.arange(1, 6)

    def q_at(t):
        angles = 2 * np.pi / 10.0 * np.outer(t, np.arange(1, 6))
        series = np.sin(angles) @ sines.T + np.cos(angles) @ cosines.T
        return center + 0.25 * half * envelope(t, end)[:, None] * series

    t, h = np.linspace(0.0, end, samples), 1e-3
    q, dq = q_at(t), (q_at(t + h) - q_at(t - h)) / (2 * h)
    ddq = (q_at(t + h) - 2 * q_at(t) + q_at(t - h)) / h**2
    motion = Motion(q, dq, ddq)
    tau = inverse_dynamics(robot, motion)
    limits = {
        "q": [[float(a), float(b)] if np.isfinite(a + b) else None for a, b in robot.limits.position],
        "dq": [float(x) for x in 1.3 * np.abs(dq).max(axis=0)],
        "ddq": [None if j == 1 else float(2 * x) for j, x in enumerate(np.abs(ddq).max(axis=0))],
        "tau": [float(x) for x in (4 if robot.n_joints > 6 else 1.05) * np.abs(tau).max(axis=0)],
    }
    W = base_columns(robot, motion)
    t_frames = np.linspace(0.0, end, frames)
    home = (np.zeros(robot.n_joints) + np.linspace(0, 1, 40)[:, None] * q_at(np.zeros(1))).reshape(40, -1)
    return {
        "name": "excite",
        "kind": "excitation",
        "note": "All joints together, five harmonics of 0.1 Hz.",
        "duration_s": end,
        "condition": float(np.linalg.cond(W)),
        "condition_weighted": 7.31,
        "phases": [
            {"name": name, "start": start, "end": stop}
            for name, start, stop in [
                ("settle", 0.0, 1.0),
                ("ramp-in", 1.0, 3.0),
                ("warm-up", 3.0, 4.0),
                ("measured", 4.0, 24.0),
                ("ramp-out", 24.0, 26.0),
                ("hold", 26.0, 27.0),
            ]
        ],
        "time": t.tolist(),
        **{key: value.T.tolist() for key, value in (("q", q), ("dq", dq), ("ddq", ddq), ("tau", tau))},
        "limits": limits,
        "frames": bodies(robot, t_frames, q_at(t_frames)),
        "approach": bodies(robot, np.linspace(0, 4, 40), home),
        "capsules": [
            {"link": robot.mechanism.link_names[capsule.link], "radius": capsule.radius}
            for capsule in robot.capsules
            if capsule.link >= 0
        ],
        "history": [
            {
                "evaluations": 20 * 2**k if k < 12 else 40960 + 20000 * (k - 11),
                "best": None if k < 2 else 3.4 + 40.0 / (k + 1) ** 1.8,
                "feasible_share": min(1.0, 0.08 * k),
                "stage": "GA" if k < 7 else "CMA-ES" if k < 12 else "SLSQP",
            }
            for k in range(15)
        ],
        "spectrum": np.linalg.svd(W, compute_uv=False).tolist(),
        "correlation": {"names": list(base_parameters(robot).names), "matrix": (W.T @ W).tolist()},
        "certificate": certificate(robot),
        "ready": True,
    }


def base_columns(robot, motion):
    base = base_parameters(robot)
    W = regressor(robot, motion).reshape(-1, base.regrouping.shape[1])[:, base.kept]
    return W / np.linalg.norm(W, axis=0)


def bodies(robot, t, q):
    T, capsules = link_poses(robot, q), [capsule for capsule in robot.capsules if capsule.link >= 0]
    ends = [
        np.concatenate([T[:, c.link, :3, :3] @ p + T[:, c.link, :3, 3] for p in (c.start, c.end)], axis=1)
        for c in capsules
    ]
    tool = T[:, robot.tool.link] @ robot.tool.T_link_frame
    return {
        "time": t.tolist(),
        "capsules": np.stack(ends, axis=1).tolist() if ends else [[] for _ in t],
        "tool": tool[:, :3, 3].tolist(),
    }


def certificate(robot):
    proofs = {
        "position": ("rad", "between samples, Ehlich-Zeller bound"),
        "velocity": ("rad/s", "between samples, Ehlich-Zeller bound"),
        "acceleration": ("rad/s²", "between samples, Ehlich-Zeller bound"),
        "torque": ("N m", "grid and h²/8 · max |f″|"),
    }
    items = [
        {
            "name": f"{quantity} {joint}",
            "unit": unit,
            "limit": 10.0,
            "worst": 9.9 - 0.37 * ((7 * i + k) % 9),
            "margin": 0.1 + 0.37 * ((7 * i + k) % 9),
            "proof": proof,
            "holds": True,
        }
        for i, joint in enumerate(robot.joint_names)
        for k, (quantity, (unit, proof)) in enumerate(proofs.items())
    ]
    table = {"name": "table / link j3", "unit": "m", "limit": 0.02, "worst": 0.031, "margin": 0.011, "holds": True}
    return [*items, {**table, "proof": "Lipschitz bound, refined until decided"}]


def static_run(robot):
    """A run that has little to show."""
    failed = {"name": "velocity j2", "unit": "rad/s", "limit": 2.0, "worst": 2.3, "margin": -0.3, "holds": False}
    return {
        "name": "static poses",
        "kind": "static",
        "note": "",
        "duration_s": 120.0,
        "certificate": [{**failed, "proof": "grid"}],
        "ready": False,
    }


def forecast(robot):
    base = base_parameters(robot)
    rows = []
    for k, (name, unit) in enumerate(zip(base.names, base.units, strict=True)):
        relative = None if k % 17 == 16 else 0.003 * 1.14 ** (k * 7 % 41)
        rows.append(
            {
                "name": name,
                "unit": unit,
                "prior": 0.8 / (k + 1),
                "sigma": 0.001 / (k + 1),
                "sigma_inflated": 0.0026 / (k + 1),
                "relative": relative,
                "relative_inflated": None if relative is None else 2.6 * relative,
                "periods_needed": None if relative is None else 1 + k % 5,
                "label": "not known beforehand" if relative is None else "",
            }
        )
    return {
        "noise": "0.02 … 0.4 N m per joint, typed in the campaign",
        "parameters": rows,
        "torque_error": [
            {"joint": name, "sigma": 0.05 / (j + 1), "relative": 0.011 + 0.002 * j}
            for j, name in enumerate(robot.joint_names)
        ],
        "sentences": ["Ten measured periods are enough for every parameter but Ia6."],
        "unidentifiable": ["YY1: its column is zero, since joint 1 is vertical", "Ia6 apart from ZZ6"],
    }


class Reader(HTMLParser):
    """Read a page: elements must close in order; keeps tags, attributes and scripts."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.scripts, self.words = [], [], [], []
        self.feed(page)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"line {self.getpos()[0]}"

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts.append((self.tags[-1][1].get("type"), data))
        elif self.open and self.open[-1] != "style":
            self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())

    @property
    def data(self):
        return json.loads(next(text for kind, text in self.scripts if kind == "application/json"))


FAILED = 'class="hint failed"'
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def browse(page, folder, *extra):
    """Open a page in headless Chromium; return the finished document and what the console said."""
    path = folder / "plan.html"
    path.write_text(page, encoding="utf-8")
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"]
    command += [f"--user-data-dir={folder / 'profile'}", "--enable-logging=stderr", "--v=0", "--disable-dev-shm-usage"]
    command += ["--virtual-time-budget=12000", *extra, path.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def with_script(page, script):
    """Add a script that uses the page as a person would; the page's policy must be told of it."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    page = page.replace("script-src ", f"script-src 'sha256-{digest}' ", 1)
    return page.replace("</body>", f"<script>{script}</script></body>")


in_browser = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium fonts-dejavu-core")
