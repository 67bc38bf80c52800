"""SavedModels: their files, which graphs they have, and what these name."""

from __future__ import annotations
