"""Whatever a run fetches and is fed: the values and errors of TensorFlow's session, or a refusal.

A refused run costs no batch, so that TensorFlow's session runs all others.
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graph_opt.compat import tf
from tests.example_share import example_share
from tests.random_models.choices import STAGE, Input, Lookup, Model, Stage, Table, models
from tests.random_models.graphs import Script, config, import_copy, open_session, script_of

TOLERANCE = 2e-5
FED = ("scale", "ids", "label", "hidden", "rows")
FETCHED = ("step", "loss", "count", "variable", "hidden", "rows", "batch")


class Run(NamedTuple):
    """One run of a session.

    Attributes:
      fetches: Of each something in `FETCHED`, and which of several.
      feeds: Of each something in `FED`.
      compiled: Whether it goes through `make_callable`.
    """

    fetches: List[Tuple[str, int]]
    feeds: List[str]
    compiled: bool


RUN = st.builds(
    Run,
    fetches=st.lists(
        st.tuples(st.sampled_from(FETCHED), st.integers(0, 6)), min_size=1, max_size=4
    ),
    feeds=st.one_of(
        st.just([]), st.lists(st.sampled_from(FED), min_size=1, max_size=2, unique=True)
    ),
    compiled=st.booleans(),
)
RUNS = st.lists(RUN, min_size=2, max_size=8)


def _ordered(run: Run, model: Model) -> Run:
    """Without what TensorFlow reads before the updates of a step or after them, as it happens."""
    if "step" not in dict(run.fetches):
        return run
    unordered = {"variable", "count"}
    if run.feeds or not all(one.read for one in model.lookups):
        unordered.add("rows")
    return run._replace(fetches=[one for one in run.fetches if one[0] not in unordered])


def _fetched(script: Script, what: str, number: int) -> str:
    several = {
        "rows": script.rows,
        "variable": sorted(script.variables.values()),
        "batch": sorted(script.inputs.values()),
    }
    if what in several:
        return several[what][number % len(several[what])]
    return {
        "step": script.step,
        "loss": script.loss,
        "count": script.variables["global_step"],
        "hidden": script.hidden,
    }[what]


def _fed(script: Script, graph: Any, feeds: List[str], batch: int) -> Dict[str, Any]:
    """Values of tensors; of those alone that the model has."""
    names = {
        "scale": [one.name + ":0" for one in graph.get_operations() if one.name == "scale/by"],
        "ids": [one.name + ":0" for one in graph.get_operations() if one.name == "fed"],
        "label": [script.inputs["label"]],
        "hidden": [script.hidden],
        "rows": script.rows[:1],
    }
    fed = {}
    for name in [name for feed in feeds for name in names[feed]]:
        tensor = graph.get_tensor_by_name(name)
        shape = [batch if size is None else size for size in tensor.shape.as_list()]
        fed[name] = np.full(
            shape, 0.5 if tensor.dtype.is_floating else 3, tensor.dtype.as_numpy_dtype
        )
    return fed


Outcome = Tuple[Optional[type], Any]
"""The class of the error, and its message or the values."""


def _outcome(session: Any, fetches: List[str], fed: Dict[str, Any], compiled: bool) -> Outcome:
    try:
        if not compiled:
            return None, session.run(fetches, fed)
        return None, session.make_callable(fetches, list(fed))(*fed.values())
    except tf.errors.OpError as error:
        return type(error), error.message


def _outcomes(
    script: Script, model: Model, options: Any, runs: List[Run], skipped: List[int]
) -> List[Optional[Outcome]]:
    found: List[Optional[Outcome]] = []
    with tf.Graph().as_default() as graph:
        import_copy(script)
        with open_session(options) as session:
            for start in script.starts:
                session.run(start)
            for number, run in enumerate(runs):
                fetches = [_fetched(script, *one) for one in run.fetches]
                fed = _fed(script, graph, run.feeds, model.inputs.batch)
                skip = number in skipped
                found.append(None if skip else _outcome(session, fetches, fed, run.compiled))
    return found


def _is_refused(outcome: Outcome) -> bool:
    return outcome[0] is tf.errors.InvalidArgumentError and (
        "cannot feed" in outcome[1] or "prefetch region" in outcome[1]
    )


def _may_be_refused(run: Run, is_fused: bool, is_ahead: bool) -> bool:
    if is_fused and "rows" in run.feeds:
        return True
    fetches_hidden = not {"rows", "batch"}.isdisjoint(what for what, _ in run.fetches)
    feeds_hidden = not {"scale"}.issuperset(run.feeds)  # All others may be what threads read.
    return is_ahead and (fetches_hidden or feeds_hidden)


def _check(model: Model, runs: List[Run], group: bool, stage: Optional[Stage], exact: bool) -> None:
    if stage is not None and not exact:  # Rows may be old then.
        model = model._replace(optimizer="adagrad_still")
    if stage is not None and stage.smart:  # Draws for each batch, and TensorFlow where it is read.
        model = model._replace(dense=[one for one in model.dense if one != "draw"])
    runs = [_ordered(run, model) for run in runs]
    script = script_of(model)
    options = config(group or exact, stage, exact, model.inputs.staged)
    ours = _outcomes(script, model, options, runs, [])
    refused = [number for number, one in enumerate(ours) if one is not None and _is_refused(one)]
    stock = _outcomes(script, model, None, runs, refused)
    for number, (run, got, expected) in enumerate(zip(runs, ours, stock)):
        told = "run {}: {}".format(number, run)
        assert got is not None
        if expected is None:
            assert _may_be_refused(run, group or exact, stage is not None or model.inputs.staged), (
                told
            )
            continue
        assert got[0] is expected[0], (told, got, expected)
        if got[0] is None:
            _assert_close(got[1], expected[1], told)


def _assert_close(got: List[Any], expected: List[Any], told: str) -> None:
    for one, other in zip(got, expected):
        assert (one is None) == (other is None), told
        if one is not None:
            np.testing.assert_allclose(one, other, rtol=TOLERANCE, atol=TOLERANCE, err_msg=told)


ANY_RUNS = given(
    models(["sgd", "adagrad", "momentum", "ftrl"], fed=True),
    RUNS,
    st.booleans(),
    st.one_of(st.none(), STAGE),
    st.booleans(),
)


@example_share(0.03)
@ANY_RUNS
def test_random_fetches(
    model: Model, runs: List[Run], group: bool, stage: Optional[Stage], exact: bool
) -> None:
    _check(model, runs, group, stage, exact)


def test_rows_are_fed_beside_the_rest_of_a_batch() -> None:
    model = Model([Table()], [Lookup(api="rows")], Input(staged=True))
    runs = [Run([("step", 0)], [], False), Run([("loss", 0)], ["rows"], False)]
    _check(model, runs, False, Stage(), True)


@pytest.mark.slow
@pytest.mark.fuzz("fetches")
@ANY_RUNS
def test_many_random_fetches(
    model: Model, runs: List[Run], group: bool, stage: Optional[Stage], exact: bool
) -> None:
    _check(model, runs, group, stage, exact)
