"""The chain's bench in small: a model that tells the truth is inside its bounds, and one that doesn't is not."""

import numpy as np
import pytest

from benchmarks import chain
from excitor.experiments.campaign import open_campaign
from excitor.experiments.emit import Request, emit
from excitor.experiments.identification import identify, noise_share
from excitor.experiments.simulate import SimulationOptions, simulate

PAIR = chain.Pair("rotradi", "csv", "csv")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = chain.designed(tmp_path_factory.mktemp("chain") / "rotradi", "rotradi")
    emit(where, Request(("csv",), approximate=True, loss=1.0), lambda _: None)
    return where


def test_a_healthy_chain_is_inside_its_bounds(folder):
    pair = chain.chained(folder, PAIR)
    assert not pair.refused
    assert not pair.failed
    assert pair.chi_square <= pair.bound
    assert pair.covered >= 0.8 * pair.parameters
    assert pair.heldout_ratio <= chain.FLOOR_RATIO


def test_an_untrue_model_is_outside(folder):
    chain.chained(folder, PAIR)
    (made,) = simulate(folder, ["csv"], SimulationOptions(fresh=True), lambda _: None)
    identified = identify(open_campaign(folder, "identify"))
    truth, unseen = chain.truth_of(made.data, "identify"), chain.truth_of(made.data, "validate")
    wrong = truth * np.where(np.arange(len(truth)) == int(np.argmax(np.abs(truth))), 1.1, 1.0)
    assert (
        chain.judged(PAIR, identified, truth, unseen).chi_square
        < chain.judged(PAIR, identified, wrong, unseen).chi_square
    )
    assert (
        chain.judged(PAIR, identified, wrong, unseen).chi_square > chain.judged(PAIR, identified, truth, unseen).bound
    )
    assert 0.0 < noise_share(identified) < 0.5


def test_faults_are_failures_and_unfit_robots_refused(folder):
    simulated = chain.chained(folder, chain.Pair("rotradi", "fanuc", "fanuc_csv"))
    assert simulated.refused or simulated.failed
