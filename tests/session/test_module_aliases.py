"""`import sparse_operation_kit` gives graph_opt's module while that is asked for."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from typing import Any, Dict

import pytest

import graph_opt
from graph_opt.compat import tf

NAME = "sparse_operation_kit"


def test_scripts_import_our_modules_until_uninstalled(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = types.ModuleType(NAME)
    monkeypatch.setitem(sys.modules, NAME, theirs)
    finders = list(sys.meta_path)
    with graph_opt.install(sok=True), graph_opt.install(sok=True):
        script = (
            "import sparse_operation_kit as sok\n"
            "import sparse_operation_kit.communication as communication\n"
            "from sparse_operation_kit.communication import rank\n"
            "from sparse_operation_kit import __version__, experiment, set_comm_tool\n"
            "from sparse_operation_kit.optimizer import SGD, OptimizerWrapper\n"
            "from sparse_operation_kit.distributed_variable import DistributedVariable\n"
            "from sparse_operation_kit.distributed_variable import LocalizedVariable, Variable\n"
            "from sparse_operation_kit.dynamic_variable import DynamicVariable, assign, export\n"
            "from sparse_operation_kit.lookup import all2all_dense_embedding, lookup_sparse\n"
            "from sparse_operation_kit.dump_load import dump, incremental_model_dump, load\n"
            "import distributed_embeddings\n"
            "from distributed_embeddings import __version__ as release\n"
            "from distributed_embeddings import dist_model_parallel as dmp\n"
            "from distributed_embeddings.python.layers import embedding\n"
            "from distributed_embeddings.python.ops.embedding_lookup_ops import embedding_lookup\n"
        )
        names: Dict[str, Any] = {}
        exec(script, names)
        ours = importlib.import_module("graph_opt.sok")
        assert names["sok"] is names["experiment"] is ours
        assert names["communication"] is ours.communication
        assert names["distributed_embeddings"] is graph_opt.distributed_embeddings
        assert names["embedding"].Embedding is graph_opt.distributed_embeddings.Embedding
        assert names["LocalizedVariable"] is ours.LocalizedVariable
        de = graph_opt.distributed_embeddings
        assert names["dmp"].DistributedEmbedding is de.DistributedEmbedding
        assert names["__version__"].startswith("2.") and names["release"] == de.__version__
        assert ours.__spec__ is not None and ours.__spec__.name == "graph_opt.sok"
        assert importlib.util.find_spec(NAME + ".distributed_variable") is not None
        with pytest.raises(ModuleNotFoundError, match="graph_opt has no graph_opt"):
            importlib.import_module(NAME + ".absent")
        with pytest.raises(tf.errors.FailedPreconditionError, match="sok, deeprec or contrib"):
            graph_opt.install()
    assert sys.modules[NAME] is theirs and sys.meta_path == finders
    assert [name for name in sys.modules if name.startswith(NAME + ".")] == []


def test_without_asking_nothing_is_found() -> None:
    with graph_opt.install():
        assert importlib.util.find_spec(NAME) is None
