"""Saved tables from one format to another."""

from __future__ import annotations

from typing import Dict

CHECKPOINT = "checkpoint"
# By name, the module of `table_files` whose `FORMAT` is meant. What a path has is asked of each in
# this order.
FORMATS: Dict[str, str] = {"sok": "dump_files", "npy": "npy_files", CHECKPOINT: "checkpoint_format"}
