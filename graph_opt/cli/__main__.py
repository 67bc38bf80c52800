"""`python -m graph_opt.cli` is `graph-opt`."""

from __future__ import annotations

import sys

from graph_opt.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
