"""Several estimators on the same data: how they do, whether they agree, and what to believe when they don't."""
