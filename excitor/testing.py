"""Conformance suites: what an estimator, an export and a friction law must fulfil. They run on registration."""

from excitor.experiments.export.conformance import check_export as check_export
from excitor.identify.conformance import check_estimator as check_estimator
