"""Sessions with deferred updates: scripts see in them what they see with stock TensorFlow."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest

import graph_opt
from graph_opt.compat import tf
from tests.quick_cases import slow_but
from tests.session.deferred_model import ModelOptions, assert_same
from tests.session.deferred_scripts import SCRIPTS, Script, Seen
from tests.session.deferred_sessions import assert_deferred, fused_config


def seen_by(play: Any, opened: Any, options: ModelOptions, folder: Path) -> Seen:
    folder.mkdir()
    with tf.Graph().as_default() as graph:
        seen: Seen = play(Script(opened, options, folder))
        if opened is not tf.Session:
            assert_deferred(graph)
    return seen


# What these two do, others do too.
ALIKE = ("fetching_variables", "growing_from_another_thread")


@pytest.mark.parametrize(
    "use_resource",
    [pytest.param(False, marks=pytest.mark.slow, id="ref"), pytest.param(True, id="resource")],
)
@pytest.mark.parametrize(
    "play",
    slow_but(SCRIPTS, *(play for play in SCRIPTS if play.__name__ not in ALIKE)),
    ids=lambda play: play.__name__,
)
def test_a_script_sees_what_it_sees_with_tensorflow(
    play: Any, use_resource: bool, tmp_path: Path
) -> None:
    options = ModelOptions(use_resource=use_resource)
    stock = seen_by(play, tf.Session, options, tmp_path / "stock")
    opened = functools.partial(graph_opt.Session, config=fused_config())
    assert_same(seen_by(play, opened, options, tmp_path / "ours"), stock)
