"""Random graphs in, legal graphs out: pure, repeatable, final, and with the numbers of before."""

from __future__ import annotations

from typing import Any, Optional

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from graph_opt.config.options import session_options
from graph_opt.passes.optimize import optimize_graph_def
from tests.example_share import example_share
from tests.optimizer_models import ROW_BY_ROW
from tests.passes.legal_rewrites import require_once
from tests.random_models.choices import STAGE, Input, Lookup, Model, Stage, Table, models
from tests.random_models.graphs import config, difference, script_of, train

MODELS = models(ROW_BY_ROW)
STAGES = st.one_of(st.none(), STAGE)
TOLERANCE = 2e-5


def _bytes(graph_def: Any) -> bytes:
    return bytes(graph_def.SerializeToString(deterministic=True))


def _check(model: Model, stage: Optional[Stage], group: bool, exact: bool) -> None:
    if stage is not None and not exact:  # Rows are old then, which must not change what they are.
        model = model._replace(optimizer="adagrad_still")
    script = script_of(model)
    options = config(group or exact, stage, exact, model.inputs.staged)
    before = _bytes(script.graph_def)
    once, again = (optimize_graph_def(script.graph_def, options) for _ in range(2))
    assert _bytes(script.graph_def) == before
    assert _bytes(once.graph_def) == _bytes(again.graph_def)
    ops = {node.name: node.op for node in once.graph_def.node}
    kept = {node.name: node.op for node in script.graph_def.node}
    assert {name: ops.get(name) for name in kept} == kept
    require_once(once.graph_def, session_options(options))
    rewritten = train(script._replace(graph_def=once.graph_def), None)
    assert difference(rewritten, train(script, None)) < TOLERANCE


ANY_GRAPH = given(model=MODELS, stage=STAGES, group=st.booleans(), exact=st.booleans())


# Nothing runs ahead of a lookup that no update depends on, but its gather is protected.
UNUSED = Model(
    tables=[Table(width=1, resource=True, shards=1, strategy="div")],
    lookups=[
        Lookup(
            table=0,
            api="safe",
            combiner="sum",
            weighted=False,
            default_id=None,
            short=False,
            empty=False,
            joined=False,
            read=False,
        )
    ],
    inputs=Input(source="one_shot", batch=1, steps=2, odd=False, staged=False, seed=0),
    dense=[],
    optimizer="adadelta",
    clipped=False,
)


@example_share(0.03)
@example(model=UNUSED, stage=Stage(threads=1, capacity=1, smart=False), group=False, exact=False)
@example(model=UNUSED, stage=None, group=False, exact=True)
@ANY_GRAPH
def test_random_graphs(model: Model, stage: Optional[Stage], group: bool, exact: bool) -> None:
    _check(model, stage, group, exact)


@pytest.mark.slow
@pytest.mark.fuzz("graph")
@ANY_GRAPH
def test_many_random_graphs(model: Model, stage: Optional[Stage], group: bool, exact: bool) -> None:
    _check(model, stage, group, exact)
