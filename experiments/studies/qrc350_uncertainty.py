"""How sure are the parameters? The printed σ and two wider ones, judged by how far models A and B lie apart."""

import numpy as np

from excitor.experiments.studies.qrc350_data import Recordings
from excitor.experiments.studies.qrc350_tables import Models
from excitor.identify.estimate import Estimate, compress, ols
from excitor.identify.intervals import block_bootstrap
from excitor.identify.regression import Regression
from excitor.robots.arrays import FloatArray


def disagreement(recordings: Recordings, models: Models) -> dict[str, float]:
    """Median over the parameters of |A - B| / σ, σ² = σ_A² + σ_B²; near 0.7 where σ is right and both models are.

    printed    the scatter of repetitions alone: what a repeatable model error does is not in it
    white      the size of the residuals, all taken for independent
    bootstrap  the size of the residuals and how long they last
    """
    pairs = [(recordings.equations["A"], models.A), (recordings.equations["B"], models.B)]
    difference = np.abs(models.A.values - models.B.values)
    kinds = {
        "printed": [model.sigma for _, model in pairs],
        "white": [ols(compress(equations, repetition_weights(equations))).sigma for equations, _ in pairs],
        "bootstrap": [robust_sigma(equations, model) for equations, model in pairs],
    }
    return {kind: float(np.median(difference / np.hypot(*sigmas))) for kind, sigmas in kinds.items()}


def robust_sigma(equations: Regression, model: Estimate) -> FloatArray:
    """Estimate standard deviations by a bootstrap of blocks as long as residuals remember, (n_params,)."""
    return block_bootstrap(equations, model, row_weights=repetition_weights(equations)).sigma


def repetition_weights(equations: Regression) -> FloatArray:
    """Weight rows as published, by the scatter of single repetitions, (n_rows,)."""
    assert equations.variance is not None
    return np.asarray(1.0 / np.sqrt(equations.variance))
