"""Checks JSON that graph-opt wrote against the schema that users are given."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any, Dict

from jsonschema import Draft202012Validator

SCHEMA = Path(__file__).resolve().parents[1] / "graph_opt" / "reporting" / "reports.schema.json"


def validated(text: str) -> Dict[str, Any]:
    """The document, which is as its kind is described.

    Raises:
      jsonschema.ValidationError: It has a field that is not described, or lacks one.
    """
    document: Dict[str, Any] = json.loads(text, parse_constant=_refuse)
    _validator(document["kind"]).validate(document)
    return document


def schema() -> Dict[str, Any]:
    """The schema of all kinds of documents."""
    loaded: Dict[str, Any] = json.loads(SCHEMA.read_text("utf-8"))
    return loaded


@functools.lru_cache(maxsize=None)
def _validator(kind: str) -> Any:
    whole = schema()
    reference = "#/$defs/{}_document".format(kind)
    assert {"$ref": reference} in whole["oneOf"]
    # Releases of jsonschema for Python 3.7 cannot resolve what is relative to a URN.
    del whole["oneOf"], whole["$id"]
    return Draft202012Validator(dict(whole, **{"$ref": reference}))


def _refuse(constant: str) -> Any:
    raise AssertionError("{} is no JSON".format(constant))
