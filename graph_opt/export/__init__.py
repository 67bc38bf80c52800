"""Exports: the user's own graph, in TensorFlow's ops."""

from __future__ import annotations
