"""What leaves a process: the user's own graph, in TensorFlow's ops."""

from __future__ import annotations
