"""Scripts of DeepRec's model zoo run unmodified: they train, evaluate, and export."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Dict, Iterator, List, Sequence, Tuple

import numpy as np
import pytest

from graph_opt.compat import tf
from tests.conftest import MadeOnce
from tests.deeprec.zoo_scripts import write_data, write_parquet
from tests.forked_programs import Ended, Forked, run_forked, run_script, start_graph_opt
from tests.horovod_processes import NEEDS_HOROVOD
from tests.processes import kill
from tests.session.parameter_servers import free_addresses
from tools.bench.deeprec.scripts import (
    DATA_SETS,
    NEED_CONTRIB,
    write_script,
    write_stock_script,
)

EV = ["--ev", "True", "--ev_filter", "counter", "--ev_elimination", "gstep"]
FLAGS: Dict[str, List[str]] = {
    "default": [],
    "ev": EV,
    "ev_of_other_kinds": ["--ev", "True", "--ev_filter", "cbf", "--ev_elimination", "l2"],
    "ev_in_parts": ["--ev", "True", "--input_layer_partitioner", "1024", "--optimizer", "adam"],
    "adaptive": ["--adaptive_emb", "True", "--optimizer", "adagrad"],
    "grouped": ["--group_embedding", "localized", "--optimizer", "adagraddecay"],
    "collective": ["--group_embedding", "collective", "--optimizer", "gradientdescent"],
    "unstaged": ["--smartstaged", "False", "--emb_fusion", "False", "--op_fusion", "False"],
    "work_queue": ["--workqueue", "True"],
    "parquet": ["--parquet_dataset", "True"],
    "shuffled_parquet": ["--parquet_dataset", "True", "--parquet_dataset_shuffle", "True", *EV],
    "bfloat16": ["--bf16"],
    "multihash": ["--multihash", "True", "--interaction_op", "dot"],
    "micro_batch": ["--micro_batch", "2", "--optimizer", "adagrad", "--timeline", "3"],
    "stock": ["--tf"],
}
# What data sets without Parquet files and columns of other kinds have.
FEWER = ("default", "ev", "unstaged", "work_queue", "multihash", "micro_batch", "bfloat16", "stock")
SCORES = """
import sys
import tensorflow.compat.v1 as tf
with tf.Session(graph=tf.Graph()) as session:
    model = tf.saved_model.load(session, ["serve"], sys.argv[1])
    signature = model.signature_def["serving_default"]
    inputs = sorted(signature.inputs)
    feed = {}
    for name, info in signature.inputs.items():
        value = {tf.string.as_datatype_enum: "v1", tf.float32.as_datatype_enum: 1.5}
        feed[info.name] = [value.get(info.dtype, 1)] * 5
    scores = session.run(signature.outputs["score"].name, feed)
assert scores.shape == (5, 1) and (0 < scores).all() and (scores < 1).all()
assert "graph_opt" not in sys.modules
"""


@pytest.fixture
def data_and_parquet(made_once: MadeOnce) -> Path:
    pytest.importorskip("pyarrow")
    return made_once("parquet_of_zoo_scripts", write_parquet)


@pytest.fixture
def data(made_once: MadeOnce) -> Path:
    return made_once("data_of_zoo_scripts", write_data)


def start(script: Path, data: Path, flags: Sequence[str], config: Sequence[str] = ()) -> Forked:
    folder = script.parent
    return start_graph_opt(["run", *config, str(script), *arguments(script, data, flags)], folder)


def arguments(script: Path, data: Path, flags: Sequence[str]) -> List[str]:
    location = str(data / DATA_SETS[script.stem.replace("stock_", "")])
    return [
        *("--data_location", location, "--batch_size", "32", "--checkpoint", "trained"),
        *("--parquet_dataset", "False", *flags),  # the last one counts
    ]


def trained_and_evaluated(ended: Ended) -> List[str]:
    """The lines with what the evaluation found."""
    assert ended.returncode == 0, ended.stderr
    assert "Training completed." in ended.stdout
    return [line for line in ended.stdout.splitlines() if line.startswith(("ACC", "AUC"))]


@pytest.mark.slow
def test_a_script_of_the_zoo_runs_unmodified(tmp_path: Path, data: Path) -> None:
    flags = [*EV, "--micro_batch", "2", "--no_eval", "--save_steps", "10", "--export", "model"]
    ended = start(write_script("dlrm", tmp_path), data, flags).wait()
    assert ended.returncode == 0 and "Training completed." in ended.stdout, ended.stderr
    read = [line for line in ended.stderr.splitlines() if "INFO" not in line]
    assert "6 of 6 lookups run ahead of the step" in ended.stderr
    assert "deprecated" not in ended.stderr and len(read) < 7, ended.stderr
    assert run_forked(SCORES, tmp_path, "model").returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize("model", DATA_SETS)
def test_every_script_runs_with_all_flags(
    tmp_path: Path, data_and_parquet: Path, model: str
) -> None:
    for name, flags in FLAGS.items():
        if DATA_SETS[model] == "amazon" and name not in FEWER:
            continue
        folder = tmp_path / name
        folder.mkdir()
        script = write_script(model, folder)
        ended = start(script, data_and_parquet, [*flags, "--export", "model"]).wait()
        assert len(trained_and_evaluated(ended)) == 2, name
        assert "that TensorFlow alone cannot load" not in ended.stderr
        loaded = run_forked(SCORES, folder, "model")
        assert loaded.returncode == 0, (name, loaded.stderr)


@pytest.mark.slow
@pytest.mark.parametrize("model", [model for model in DATA_SETS if model not in NEED_CONTRIB])
def test_features_that_only_make_it_faster_change_no_number(
    tmp_path: Path, data: Path, model: str
) -> None:
    stock = write_stock_script(model, tmp_path)
    plain = run_script(stock, tmp_path, *arguments(stock, data, ["--tf"]))
    expected = trained_and_evaluated(plain)
    assert len(expected) == 2
    fused = tmp_path / "fused.pbtxt"
    fused.write_text("graph_options { optimizer_options { do_group_embedding: true } }")
    for flags in (["--optimizer", "adam", "--group_embedding", "localized"], ["--tf"]):
        folder = tmp_path / flags[0]
        folder.mkdir()
        ended = start(write_script(model, folder), data, flags, ["--config", str(fused)]).wait()
        assert trained_and_evaluated(ended) == expected


@pytest.mark.slow
@NEEDS_HOROVOD
@pytest.mark.parametrize("strategy", ["sok", "hb"])
def test_ranks_divide_the_tables_of_a_script(tmp_path: Path, data: Path, strategy: str) -> None:
    """Ranks that read the same batches move every variable as one of them alone does.

    Both begin with the same checkpoint: TensorFlow 1 seeds an initial value with the number of ops
    before it, which is another one for each way to look up.
    """

    def train(ranks: int, folder: Path, *more: str) -> Ended:
        folder.mkdir(exist_ok=True)
        script = write_script("dlrm", folder)
        command = ["run", "-np", str(ranks), "--set", "do_async_embedding=false", str(script)]
        command += arguments(script, data, ["--group_embedding", "collective", *more])
        ended = start_graph_opt(command, folder, COLLECTIVE_STRATEGY=strategy).wait()
        assert ended.returncode == 0, ended.stderr
        return ended

    train(1, tmp_path / "begun", "--steps", "1", "--no_eval", "--save_steps", "100")
    assert tf.train.latest_checkpoint(str(tmp_path / "begun" / "trained"))
    weights = []
    for ranks in (1, 2):
        folder = tmp_path / str(ranks)
        shutil.copytree(str(tmp_path / "begun" / "trained"), str(folder / "trained"))
        ended = train(ranks, folder)
        assert ("6 of 6 large tables sharded across ranks" in ended.stderr) == (ranks == 2)
        weights.append(dict(saved_in(folder / "trained")))
    assert weights[0].keys() == weights[1].keys()
    assert weights[0]["global_step"] > 1
    for name, value in weights[0].items():
        np.testing.assert_allclose(weights[1][name], value, rtol=1e-6, atol=1e-7, err_msg=name)


def saved_in(folder: Path) -> Iterator[Tuple[str, np.ndarray]]:
    """The variables of a checkpoint, by name."""
    reader = tf.train.load_checkpoint(tf.train.latest_checkpoint(str(folder)))
    for name in reader.get_variable_to_shape_map():
        yield name, reader.get_tensor(name)


@pytest.mark.slow
@NEEDS_HOROVOD
def test_an_embedding_variable_is_not_trained_by_several_ranks(tmp_path: Path, data: Path) -> None:
    script = write_script("dlrm", tmp_path)
    flags = arguments(script, data, ["--group_embedding", "collective", *EV])
    ended = start_graph_opt(["run", "-np", "2", str(script), *flags], tmp_path).wait()
    assert ended.returncode == 1
    assert "cannot be trained by 2 ranks" in ended.stderr


@pytest.mark.slow
@pytest.mark.parametrize("model", ["wdl", "dlrm"])
def test_a_script_trains_in_a_cluster_and_evaluates_afterwards(
    tmp_path: Path, data: Path, model: str
) -> None:
    hosts = free_addresses(3)
    cluster = {"ps": hosts[:1], "chief": hosts[1:2], "worker": hosts[2:]}
    script = write_script(model, tmp_path)
    flags = [*(EV if model == "dlrm" else ()), "--workqueue", "True", "--steps", "40"]
    tasks = {}
    for kind in cluster:
        task = json.dumps({"cluster": cluster, "task": {"type": kind, "index": 0}})
        command = ["run", str(script), *arguments(script, data, flags)]
        tasks[kind] = start_graph_opt(command, tmp_path, TF_CONFIG=task)
    try:
        ended = tasks["chief"].wait()
    finally:  # Servers serve until they are ended, and workers wait for their chief's.
        for started in tasks.values():
            kill(started.process)
    assert ended.returncode == 0 and "Training completed." in ended.stdout, ended.stderr
    assert "lookups run ahead of the step" in ended.stderr
    saved = Path(tf.train.latest_checkpoint(str(tmp_path / "trained"))).name
    # The chief ends with its own input, or while the worker may still be in one more step.
    assert int(saved.rpartition("-")[2]) <= 41
    flags = [*(EV if model == "dlrm" else ()), "--steps", "40", "--export", "model"]
    alone = start(script, data, flags).wait()
    assert len(trained_and_evaluated(alone)) == 2
    assert "Restoring parameters from trained/{}\n".format(saved) in alone.stderr
    assert run_forked(SCORES, tmp_path, "model").returncode == 0
