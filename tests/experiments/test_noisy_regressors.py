"""Noise of a motion that biases least squares is found by its repetitions; a clean one raises nothing."""

import numpy as np
import pytest
from scipy.signal import butter, sosfiltfilt

from excitor.experiments.campaign import open_campaign
from excitor.experiments.identification import read_and_examine
from tests.campaigns import RATE
from tests.verdicts import ONE_RUN, rewrite, single_run


def finding(folder, noise_deg, seed=0):
    """Identify from a run of two and a half repetitions, with noise of positions that the low-pass lets through."""
    single_run(folder)
    (folder / "campaign.toml").write_text(ONE_RUN + '\n[identify]\nfriction = "as stated"\nallow = ["band"]\n')

    def disturb(table):
        white = np.random.default_rng(seed).normal(size=(len(table), 3))
        slow = sosfiltfilt(butter(2, 8.0, fs=RATE, output="sos"), white, axis=0)
        table[:, 1:4] += noise_deg * slow / slow.std(axis=0)

    rewrite(folder / "logs" / "first.csv", disturb)
    found = read_and_examine(open_campaign(folder)).findings
    return next(one for one in found if one.what == "noisy regressors")


def test_noise_of_the_motion_is_found(tmp_path):
    found = finding(tmp_path, 0.05)
    assert found.level == "doubtful"
    assert "other repetitions of the motion as instruments" in found.sentence
    assert found.data["p_value"] < 1e-3
    assert found.data["moved"] > 1.0
    assert "excitor compare --method iv" in found.remedy


@pytest.mark.slow
@pytest.mark.parametrize("noise_deg", [0.1, 0.3])
def test_more_noise_is_found_the_more_surely(tmp_path, noise_deg):
    """Noise makes instruments weak that another repetition gives: that is no reason to say nothing."""
    assert finding(tmp_path, noise_deg).level == "doubtful"


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_clean_motion_raises_nothing(tmp_path, seed):
    found = finding(tmp_path, 1e-4, seed)
    assert (found.level, found.remedy) == ("note", "nothing to do")
    assert found.data["p_value"] > 0.02
