"""A kind that is added to the list is all that the pass needs to know of it."""

from __future__ import annotations

import dataclasses
from typing import Any, Hashable, List, Optional

import pytest

from graph_opt.compat import tf
from graph_opt.graph.view import GraphView
from graph_opt.passes.fusion.candidates import Candidate
from graph_opt.passes.fusion.kinds import choice
from graph_opt.passes.fusion.kinds.local import FusedLocal
from graph_opt.passes.optimize import optimize_graph_def
from graph_opt.passes.table_kinds import KINDS
from tests.passes import fused_models as models


@dataclasses.dataclass(frozen=True)
class Apart(FusedLocal):
    """Tables that a name sets apart, as if they were somewhere else."""

    @classmethod
    def of(cls, view: GraphView, candidate: Candidate) -> Optional[Apart]:
        """Those whose names begin with `apart`."""
        found = FusedLocal.of(view, candidate)
        if found is None or not candidate.tables[0].startswith("apart"):
            return None
        return cls(found.worker, found.tables)

    def group_key(self, table_dtype: int) -> Hashable:
        """No other kind has this key."""
        return Apart, self.tables


APART = dataclasses.replace(KINDS[-1], name="apart", fused=Apart)


def four_tables(inputs: Any) -> List[Any]:
    """Lookups of two tables of each kind."""
    sparse = tf.sparse.from_dense(inputs["ids"])
    names = ("apart_1", "here_1", "apart_2", "here_2")
    return [
        tf.nn.safe_embedding_lookup_sparse(models.table(name), sparse, combiner="mean")
        for name in names
    ]


def test_a_third_kind_has_ops_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    stock = models.train(four_tables, "adagrad")
    monkeypatch.setattr(choice, "KINDS", (APART, *KINDS))
    fused = models.train(four_tables, "adagrad", models.config())
    groups = {one.tables[0]: one.group for one in fused.report.fused_lookups}
    assert groups["apart_1"] == groups["apart_2"] != groups["here_1"] == groups["here_2"]
    assert all(one.update == "fused" for one in fused.report.fused_lookups)
    updates = [op for op in fused.graph.get_operations() if op.type == "GroupEmbeddingApply"]
    assert len(updates) == 2
    losses, variables = models.difference(stock, fused)
    assert losses < 1e-5 and variables < 1e-5


def test_a_third_kind_catches_up_rows_as_it_looks_them_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(choice, "KINDS", (APART, *KINDS))
    inputs = models.batches()
    tf.train.AdamOptimizer().minimize(models.loss_of(four_tables(inputs), inputs))
    graph_def = tf.get_default_graph().as_graph_def(add_shapes=True)
    optimized = optimize_graph_def(graph_def, models.config(adam="deferred")).graph_def
    caught_up = [list(node.input) for node in optimized.node if node.op.endswith("CatchUp")]
    assert [inputs[:2] for inputs in caught_up] == [["apart_1", "apart_2"], ["here_1", "here_2"]]
