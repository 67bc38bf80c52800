"""Recognises embedding lookups by the structure of a graph, not by scope names."""

from __future__ import annotations

from graph_opt.rules.find import find_lookups
from graph_opt.rules.lookup import Lookup, LookupSearch, Table

__all__ = ["Lookup", "LookupSearch", "Table", "find_lookups"]
