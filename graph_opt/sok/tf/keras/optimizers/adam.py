"""Keras' Adam, which updates tables as any variable."""

from __future__ import annotations

from graph_opt.compat.keras_optimizers import legacy

Adam = legacy.Adam
