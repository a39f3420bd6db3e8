"""Intervals that no method gives by itself: for white residuals, and by the spectrum of residuals alone."""

import numpy as np

from excitor.identify.intervals import WhitenedSystem, _by_bands, intervals_of


def white_intervals(estimate, *, noise_known=False):
    """σ² = r²/(N - n) (WᵀΣ⁻¹W)⁻¹, Student's t; `noise_known`: rows were divided by their noise, then σ² is 1."""
    dof = max(estimate.n_rows - len(estimate.names), 1)
    covariance = estimate.covariance * (dof / estimate.weighted_residual**2 if noise_known else 1.0)
    return intervals_of(estimate, "white", covariance, np.inf if noise_known else float(dof), {})


def spectral_intervals(regression, estimate, runs=()):
    """Intervals by bands of the residuals' density alone."""
    return _by_bands(regression, estimate, runs, WhitenedSystem.of(regression, estimate))[0]
