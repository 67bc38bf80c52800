"""Models for serving: exported with fused lookups, for processes without graph_opt."""

from __future__ import annotations
