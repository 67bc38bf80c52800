"""Programs around the project: `bench` measures, `demo` shows, `gpu_check` checks."""

from __future__ import annotations

import os
import warnings

# TensorFlow reads this once, when it is first imported. Its notes on the CPU's instruction sets
# and on every deprecated TF1 name would bury what is printed here; errors still show.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
warnings.filterwarnings("ignore", message=r".*`tf\.layers\.")
