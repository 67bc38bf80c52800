"""Benchmarks: `python -m tools.bench [NAME...]`, or `make bench` and `make bench-NAME`.

Each benchmark is a module that measures and returns records; what all of them share is here too:

    machine.py   what the figures were measured on
    records.py   figures, goals, the JSON file and the printed table
    turns.py     contestants measured in turns: A B A B ...

A benchmark prints its table and writes the same figures to `build/bench/NAME.json`.
"""

from __future__ import annotations

import os

# TensorFlow reads this once, when it is first imported: its notes on instruction sets would bury
# the tables. Errors still show.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
