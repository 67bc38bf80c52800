"""The schema describes every field that is written, and no other."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any, Iterator, Set

import pytest
from jsonschema import Draft202012Validator, ValidationError

from graph_opt.checking.comparison import Difference, Scalar
from graph_opt.checking.verdict import DIFFERENT, CheckResult, Staleness
from graph_opt.inspect.graph_diff import GraphDiff, NodeChange
from graph_opt.reporting import (
    cost,
    counted_graph,
    outcomes,
    refreshed,
    session_report,
    staleness,
)
from graph_opt.reporting.json_documents import SCHEMA_VERSION, json_document
from graph_opt.reporting.report import Report
from tests.json_documents import schema, validated

DESCRIBED = {
    "boundary_tensor": outcomes.BoundaryTensor,
    "check_fields": CheckResult,
    "cost_fields": cost.CostPlan,
    "counted_graph": counted_graph.CountedGraph,
    "dense_reader": outcomes.DenseReader,
    "device_memory": cost.DeviceMemory,
    "diff_fields": GraphDiff,
    "difference": Difference,
    "fused_lookup": outcomes.FusedLookup,
    "large_node": counted_graph.LargeNode,
    "link": cost.LinkCost,
    "lookup": outcomes.LookupOutcome,
    "node_change": NodeChange,
    "number_of_steps": Scalar,
    "packed_transfer": outcomes.PackedTransfer,
    "process": session_report.ProcessReport,
    "rates": cost.Rates,
    "refreshed": refreshed.TableRefresh,
    "report_fields": Report,
    "run_ahead": Staleness,
    "session": session_report.SessionReport,
    "stage": outcomes.StageReport,
    "staleness": staleness.TableStaleness,
    "step": cost.StepCost,
    "table": outcomes.TableOutcome,
    "unknown": cost.UnknownCost,
}
# What `to_dict` adds to the fields of a class.
ADDED = {
    "diff_fields": {"equal"},
    "session": {"summary"},
    "step": {"tensors", "tensor_bytes", "bytes", "estimated_seconds"},
}


@pytest.mark.parametrize("name", sorted(DESCRIBED))
def test_each_field_of_a_class_is_described(name: str) -> None:
    described = set(schema()["$defs"][name]["properties"])
    assert described == _fields(DESCRIBED[name]) | ADDED.get(name, set())


def _fields(described: Any) -> Set[str]:
    if issubclass(described, tuple):
        return set(described._fields)
    return {field.name for field in dataclasses.fields(described)}


def _objects(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        if "properties" in value:
            yield value
        for inner in value.values():
            yield from _objects(inner)


def test_the_schema_is_valid_and_closed() -> None:
    whole = schema()
    Draft202012Validator.check_schema(whole)
    parts = {name for name in whole["$defs"] if name.endswith("_fields")}
    for name, described in whole["$defs"].items():
        is_closed = {
            described.get(key) for key in ("additionalProperties", "unevaluatedProperties")
        }
        assert False in is_closed or name in parts
    for described in _objects(whole):
        assert all(field.get("description") for field in described["properties"].values())
    kinds = {name[: -len("_document")] for name in whole["$defs"] if name.endswith("_document")}
    for kind in kinds:
        fields = whole["$defs"][kind + "_document"]["properties"]
        assert fields["kind"]["const"] == kind
        assert fields["schema_version"]["const"] == SCHEMA_VERSION


def test_an_undescribed_field_or_kind_is_an_error() -> None:
    document = json.loads(Report().to_json())
    assert validated(json.dumps(document)) == document
    for wrong in (
        dict(document, more=1),
        dict(document, lookups=[{}]),
        dict(document, seconds="1"),
    ):
        with pytest.raises(ValidationError):
            validated(json.dumps(wrong))
    with pytest.raises(AssertionError):
        validated(json.dumps(dict(document, kind="other")))


def test_what_is_infinite_is_null() -> None:
    told = staleness.TableStaleness("users", 1, (1, 2), math.inf)
    report = Report(staleness=(told, dataclasses.replace(told, relative_l2=0.5)))
    found = [one["relative_l2"] for one in validated(report.to_json())["staleness"]]
    assert found == [None, 0.5]
    apart = Difference("loss:0", "in training step 2", math.inf, 1e-5, updates=1, step=2)
    ahead = Staleness({"loss:0": Scalar(0.5, math.nan, apart)}, bits_differ=1)
    result = CheckResult(DIFFERENT, first=apart, variables=(apart,), staleness=ahead)
    document = validated(result.to_json())
    assert document["first"]["relative"] is None
    assert document["staleness"]["scalars"]["loss:0"]["other"] is None
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_document("report", {"seconds": math.nan})
