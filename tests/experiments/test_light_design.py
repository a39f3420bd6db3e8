"""Designing does not load identification, and both agree on the words that they share."""

import subprocess
import sys
from typing import get_args

import pytest
from pydantic import ValidationError


def test_design_does_not_load_identification():
    """Of `identify`, designing needs what campaign.toml may declare of logs, and nothing else."""
    code = (
        "import sys, excitor.experiments.verbs.design, excitor.experiments.report.plan\n"
        "print(*sorted(name for name in sys.modules if name.startswith('excitor.identify.')))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert told == ["excitor.identify.logs", "excitor.identify.logs.declared"]


def test_campaigns_know_every_way_to_judge_a_reduction():
    from excitor.experiments.campaign import Identification
    from excitor.identify.reduce import Acceptance

    for word in (*get_args(Acceptance), None):
        assert Identification(acceptance=word).acceptance == word
    with pytest.raises(ValidationError):
        Identification(acceptance="other")
