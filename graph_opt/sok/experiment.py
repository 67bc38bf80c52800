"""Where SparseOperationKit 1.2 had the names of release 2: `graph_opt.sok` itself."""

from __future__ import annotations

import sys

from graph_opt import sok

sys.modules[__name__] = sok
