"""One BLAS thread a worker: two workers on two cores would otherwise fight over them."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
