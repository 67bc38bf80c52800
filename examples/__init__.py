"""Complete TF1-style models trained with and without graph_opt; start from examples/dlrm."""

from __future__ import annotations

import os
import warnings

# TensorFlow reads this once, when it is first imported. Its notes on the CPU's instruction sets
# and on every deprecated TF1 name would bury what the examples print; errors still show.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
warnings.filterwarnings("ignore", message=r".*`tf\.layers\.")
