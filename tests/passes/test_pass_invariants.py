"""What holds for whatever a pass makes of whatever graph."""

from __future__ import annotations

from typing import Dict, List

import pytest

from graph_opt.compat.exported_graph import running_graph_def
from graph_opt.passes.optimize import PASSES
from graph_opt.passes.pass_state import PassState
from tests.passes.legal_rewrites import require_legal_rewrite
from tests.passes.one_pass import NAMES, options_of, states
from tests.passes.pass_models import MODELS
from tests.quick_cases import slow_but


def first_of_each_pass() -> List[str]:
    first: Dict[str, str] = {}
    for key in sorted(MODELS):
        first.setdefault(MODELS[key].pass_name, key)
    return list(first.values())


@pytest.mark.parametrize("key", slow_but(sorted(MODELS), *first_of_each_pass()))
def test_what_passes_make_is_legal_told_and_made_once(key: str) -> None:
    model = MODELS[key]
    graph_def = model.build() or running_graph_def(add_shapes=True)
    options = options_of(model.config, **model.known)
    state = states(graph_def, options, NAMES.index(model.pass_name))[1]
    assert state.rewrites and state.rewrites[-1].nodes, "the pass leaves this model as it is"
    require_legal_rewrite(graph_def, options)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "protect_gathers"])
def test_a_pass_that_nobody_asks_for_does_nothing(name: str) -> None:
    """All but the one that every other option asks for."""
    model = next(model for model in MODELS.values() if model.pass_name == name)
    state = PassState.of(model.build() or running_graph_def(add_shapes=True))
    options = options_of(model.config, **model.known).asking_for_nothing()
    assert PASSES[NAMES.index(name)].run(state, options) is state


def test_there_is_no_pass_without_a_model() -> None:
    assert {model.pass_name for model in MODELS.values()} == set(NAMES)
