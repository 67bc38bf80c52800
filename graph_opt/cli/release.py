"""The release of graph_opt; pyproject.toml reads it from here."""

from __future__ import annotations

RELEASE = "0.1.0"
