"""The JSON that graph-opt writes, as `reports.schema.json` beside this file describes it."""

from __future__ import annotations

import json
from typing import Any, Mapping

SCHEMA_VERSION = 1
"""Rises when a field is renamed, removed or means something else, but not for new fields."""


def json_document(kind: str, fields: Mapping[str, Any]) -> str:
    """Indented JSON that says what it is.

    Args:
      kind: What the document is, as in the schema.
      fields: Plain dicts, lists, strings and finite numbers.

    Example:
      >>> print(json_document("diff", graph_diff(before, after).to_dict()))
      {
        "added": {},
        ...
        "kind": "diff",
        ...
    """
    document = dict(fields, kind=kind, schema_version=SCHEMA_VERSION)
    return json.dumps(document, indent=2, sort_keys=True, allow_nan=False)
