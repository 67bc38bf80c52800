"""Every refusal code is triggered by some model and appears in the report."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List

import pytest

from graph_opt.compat import tf
from graph_opt.passes.optimize import optimize_graph_def
from graph_opt.reporting.remedies import remedies
from tests.json_documents import validated
from tests.passes import (
    fused_models,
    refused_dynamic,
    refused_micro_batches,
    refused_pipelines,
    refused_tables,
    refused_transfers,
    refused_updates,
)
from tests.passes.refused_models import MODELS

assert (
    refused_dynamic
    and refused_micro_batches
    and refused_pipelines
    and refused_tables
    and refused_updates
    and refused_transfers
)  # which register their models


def refusals_in(value: Any) -> Iterator[Dict[str, str]]:
    """Every refusal anywhere in a report."""
    if isinstance(value, dict) and set(value) == {"code", "node", "need", "saw"}:
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from refusals_in(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from refusals_in(inner)


def test_there_is_a_model_for_every_code() -> None:
    # These are the codes in the sources: the checks of the repository see to it.
    assert list(remedies()) == sorted(MODELS)


@pytest.mark.parametrize("code", sorted(MODELS))
def test_the_report_says_what_was_left_unchanged(code: str) -> None:
    model = MODELS[code]
    built = model.build(fused_models.batches())
    graph_def = built or tf.get_default_graph().as_graph_def(add_shapes=True)
    report = optimize_graph_def(graph_def, model.config).report
    validated(report.to_json())
    found = [refusal for refusal in refusals_in(report.to_dict()) if refusal["code"] == code]
    names = {node.name for node in graph_def.node}
    assert found, sorted(refusal["code"] for refusal in refusals_in(report.to_dict()))
    assert all(one["node"] in names and one["need"] and one["saw"] for one in found)
    assert code in str(report)


def test_refusals_are_found_anywhere_in_a_report() -> None:
    refusal = {"code": "a", "node": "b", "need": "c", "saw": "d"}
    found: List[Dict[str, str]] = list(refusals_in({"lookups": [{"refusals": (refusal,)}]}))
    assert found == [refusal]
