"""Steps under TensorFlow's debugger, which gets no values of nodes that were fused or moved."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, List, Set

import pytest
from tensorflow.python.debug.lib.debug_data import DebugDumpDir
from tensorflow.python.debug.wrappers.dumping_wrapper import DumpingDebugWrapperSession
from tensorflow.python.debug.wrappers.framework import WatchOptions
from tensorflow.python.debug.wrappers.hooks import DumpingDebugHook

import graph_opt
from graph_opt.compat import tf
from tests.session.small_model import SmallModel, async_config, initialize, scaffold_of, small_model

LINE = re.compile(r"tfdbg gets no values of (\d+) nodes? of this step \((.*)\): .* without (.*)")


def _config(group: bool, ahead: bool) -> Any:
    """A config with which TensorFlow merges no equal nodes, one of which would lack values."""
    config = async_config() if ahead else graph_opt.ConfigProto()
    optimizer = config.graph_options.optimizer_options
    optimizer.do_group_embedding = group
    optimizer.opt_level, optimizer.do_constant_folding = tf.OptimizerOptions.L0, True
    return config


def _lines(capfd: Any) -> List[Any]:
    return [LINE.search(line) for line in capfd.readouterr().err.splitlines() if "tfdbg" in line]


def _dumped(session: Any, model: SmallModel, path: Path, steps: int = 1) -> Set[str]:
    """The nodes of which a debugger gets values in the last of some steps."""
    initialize(session, model)
    debugged = DumpingDebugWrapperSession(session, str(path), watch_fn=_watch_names)
    for _ in range(steps):
        debugged.run([model.loss, model.train_op])
    last = sorted(path.glob("run_*"), key=lambda run: int(run.name.rpartition("_")[2]))[-1]
    return {each.node_name for each in DebugDumpDir(str(last), validate=False).dumped_tensor_data}


def _watch_names(fetches: Any, feeds: Any) -> Any:
    return WatchOptions(None, ".*")  # TensorFlow 1 has another name for it


@pytest.mark.parametrize(("group", "ahead"), [(True, False), (False, True), (True, True)])
def test_a_line_tells_once_how_many_nodes_have_no_values(
    group: bool, ahead: bool, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with tf.Graph().as_default():
        model = small_model()
        with graph_opt.Session(config=_config(group=False, ahead=False)) as session:
            stock = _dumped(session, model, tmp_path / "stock")
    capfd.readouterr()
    model = small_model()
    with graph_opt.Session(config=_config(group, ahead)) as session:
        ours = _dumped(session, model, tmp_path / "ours", steps=2)
    (told,) = _lines(capfd)
    assert told is not None
    graph = tf.get_default_graph()
    constant = {each.name for each in graph.get_operations() if each.type == "Const"}
    assert int(told.group(1)) == len(stock - ours - constant)
    for name in re.findall("'([^']*)'", told.group(2)):
        assert name in stock - ours
    switches = {"do_async_embedding": ahead, "do_group_embedding": group}
    assert told.group(3).split(" and ") == [name for name, is_on in switches.items() if is_on]


def test_nothing_is_said_of_nodes_that_all_have_values(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model = small_model()
    with graph_opt.Session(config=_config(group=False, ahead=False)) as session:
        _dumped(session, model, tmp_path / "unchanged")
    assert not _lines(capfd)


def test_nothing_is_said_of_nodes_that_nobody_watches(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model = small_model()

    def watch_loss(fetches: Any, feeds: Any) -> Any:
        return WatchOptions(None, "loss$")  # TensorFlow 1 has another name for it

    with graph_opt.Session(config=_config(group=True, ahead=True)) as session:
        initialize(session, model)
        debugged = DumpingDebugWrapperSession(session, str(tmp_path / "dump"), watch_fn=watch_loss)
        for _ in range(2):
            debugged.run([model.loss, model.train_op])
    assert not _lines(capfd)


def test_compiled_steps_are_debugged_as_well(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model = small_model()
    with graph_opt.Session(config=_config(group=True, ahead=True)) as session:
        initialize(session, model)
        debugged = DumpingDebugWrapperSession(session, str(tmp_path / "dump"))
        debugged.make_callable([model.loss, model.train_op])()
    assert len(_lines(capfd)) == 1


def test_hooks_debug_monitored_sessions(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    model = small_model()
    hook = DumpingDebugHook(str(tmp_path / "dump"))
    config = _config(group=True, ahead=True)
    with graph_opt.train.MonitoredTrainingSession(
        config=config, hooks=[hook], scaffold=scaffold_of(model)
    ) as session:
        for _ in range(2):
            session.run([model.loss, model.train_op])
    assert len(_lines(capfd)) == 1
