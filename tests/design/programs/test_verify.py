"""The judge itself: an executor that plays a plan rightly passes, and each thing it does wrong is told."""

from dataclasses import replace

import numpy as np
import pytest

from excitor.design.programs.plan import Stretches, marks
from excitor.design.programs.target import Execution, ProgramError, Stretch, Target, to_axes
from excitor.design.programs.verify import Judge, verify

TARGET = Target(
    "t", "a controller", "A", "streams", "deg", None, 6, 64, steps=(0.004,), marks=True,
    refuses=("override", "mode", "home", "payload"),
)  # fmt: skip


class Player:
    """Commands the plan, refuses what it must; `spoil` changes what it did, `careless` is what it lets pass."""

    def __init__(self, plan, spoil=lambda execution: execution, careless=(), silent=False):
        self.plan, self.spoil, self.careless, self.silent = plan, spoil, careless, silent

    def execute(self, files, name, machine):
        wrong = {
            "override": machine.override < 1.0,
            "mode": not machine.automatic,
            "payload": abs(machine.payload - self.plan.payload) > 0.1,
            "home": np.abs(machine.axes - to_axes(self.plan.robot, TARGET, self.plan.home)).max() > 0.5,
        }
        if any(wrong[word] for word in wrong if word not in self.careless):
            return Execution((), halted="" if self.silent else "no")
        stretches = []
        for stretch in Stretches:
            t = np.arange(round(self.plan.stretch(stretch).duration / 0.004) + 1) * 0.004
            axes = to_axes(self.plan.robot, TARGET, self.plan.stretch(stretch).at(t))
            stretches.append(Stretch(stretch, "commands", t, axes))
        events = ("out", "log on", "main", "log off", "back")
        return self.spoil(Execution(tuple(stretches), marks(self.plan), events))


@pytest.fixture(scope="module")
def plan(plan_of):
    return plan_of(payload=2.0)


def told(plan, **given):
    verdict = verify(plan, TARGET, Player(plan, **given), files={}, name="run", judge=Judge())
    return " ".join(verdict.problems)


def change(stretch, **how):
    return lambda x: replace(x, stretches=tuple(replace(s, **how) if s.name == stretch else s for s in x.stretches))


def moved(stretch, by, joint=2, place=slice(100, 101)):
    def spoil(execution):
        axes = {s.name: s.axes for s in execution.stretches}[stretch].copy()
        axes[place, joint] += by
        return change(stretch, axes=axes)(execution)

    return spoil


def test_a_right_program_passes(plan):
    assert told(plan) == ""


@pytest.mark.parametrize("careless", TARGET.refuses)
def test_every_refusal_is_demanded(plan, careless):
    assert "moves the robot; it must refuse" in told(plan, careless=(careless,))


def test_a_refusal_without_a_message_is_reported(plan):
    assert "ends without a message" in told(plan, silent=True)


@pytest.mark.parametrize("stretch", Stretches)
@pytest.mark.parametrize("by", [1e-6, -1e-6, np.nan], ids=str)
def test_one_wrong_command_is_reported(plan, stretch, by):
    if np.isnan(by):
        with pytest.raises(ValueError, match="finite"):
            told(plan, spoil=moved(stretch, by))
    else:
        assert "from its plan" in told(plan, spoil=moved(stretch, by))
        assert told(plan, spoil=moved(stretch, 1e-3 * by)) == ""  # 1e-9 deg is rounding


def test_lost_ends_parts_marks_and_logs_are_reported(plan):
    assert "planned is 0 to" in told(plan, spoil=lambda x: change("main", t=x.stretches[1].t * 1.01)(x))
    assert "planned are out, main, back" in told(plan, spoil=lambda x: replace(x, stretches=x.stretches[:2]))
    assert "marks are" in told(plan, spoil=lambda x: replace(x, marks=x.marks[:-1]))
    late = lambda x: replace(x, marks=(*x.marks[:-1], (x.marks[-1][0] + 0.1, x.marks[-1][1])))  # noqa: E731
    assert "is set at" in told(plan, spoil=late)
    assert "logger" in told(plan, spoil=lambda x: replace(x, events=("out", "main", "log off", "back")))
    assert "halts although nothing is wrong" in told(plan, spoil=lambda x: Execution((), halted="why not"))


def test_a_program_that_fails_where_it_must_refuse_is_reported(plan):
    class Failing(Player):
        def execute(self, files, name, machine):
            if machine.override < 1.0:
                raise ProgramError("run.txt", 3, "divides by zero")
            return super().execute(files, name, machine)

    verdict = verify(plan, TARGET, Failing(plan), files={}, name="run", judge=Judge())
    assert "fails rather than refuses: run.txt, line 3: divides by zero" in " ".join(verdict.problems)
