"""The training command: all modes train and score, and failures are one clear line."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import List

import pytest
import tensorflow.compat.v1 as tf

from tools.bench.training import __main__ as command
from tools.bench.training.sessions import MODES
from tools.bench.workloads.dlrm.generated import generated_files

REPOSITORY = Path(__file__).resolve().parents[3]
OUTCOME = re.compile(
    r"(\d+) steps, [\d.]+ steps/s; AUC 0\.\d+, log loss \d+\.\d+ on (\d+) held-out"
)
SMALL_DLRM = "--workload dlrm --batch 64 --buckets 100 --bottom 32 --top 32 --rows 2000".split()
SMALL_WIDE = "--workload wide --batch 64 --buckets 100 --columns 6 --layers 8 --rows 1000".split()
FIVE_STEPS = ["--steps", "5"]


@pytest.fixture
def data(tmp_path: Path) -> List[str]:
    return ["--data-dir", str(tmp_path / "data")]


def outcome(capsys: pytest.CaptureFixture) -> List[int]:
    """Steps trained and rows scored, as printed."""
    match = OUTCOME.search(capsys.readouterr().out)
    assert match is not None
    return [int(group) for group in match.groups()]


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_dlrm_trains(mode: str, data: List[str], capsys: pytest.CaptureFixture) -> None:
    assert command.main([*SMALL_DLRM, *FIVE_STEPS, *data, "--mode", mode]) == 0
    assert outcome(capsys) == [5, 200]


@pytest.mark.slow
@pytest.mark.parametrize(
    "sizes, lookups",
    [
        (SMALL_WIDE, 6),
        ([*SMALL_DLRM, "--table-shards", "2"], 26),
    ],
    ids=["wide", "dlrm_in_shards"],
)
def test_training_with_a_parameter_server_and_resource_variables(
    sizes: List[str],
    lookups: int,
    data: List[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture,
) -> None:
    cluster = "--ps --delay-ms 1 --mode async --threads-num 2 --capacity 2".split()
    variables = "--resource-variables --optimizer ftrl".split()
    files = f"--checkpoint-dir {tmp_path}/run --checkpoint-steps 2 --summary-steps 2".split()
    assert command.main([*sizes, *FIVE_STEPS, *data, *cluster, *variables, *files]) == 0
    printed = capsys.readouterr().out
    assert OUTCOME.search(printed)
    assert "{0} of {0} lookups moved".format(lookups) in printed
    assert "the taker waited" in printed
    summaries = [path for path in (tmp_path / "run").iterdir() if "tfevents" in path.name]
    tags = {
        value.tag
        for path in summaries
        for event in tf.train.summary_iterator(str(path))
        for value in event.summary.value
    }
    assert {"loss", "mean_prediction", "prefetch/async_embedding/starved_ms"} <= tags


@pytest.mark.slow
def test_training_with_fused_lookups_on_a_parameter_server(
    data: List[str], capsys: pytest.CaptureFixture
) -> None:
    cluster = "--ps --delay-ms 1 --mode both --threads-num 2".split()
    assert command.main([*SMALL_WIDE, *FIVE_STEPS, *data, *cluster]) == 0
    printed = capsys.readouterr().out
    assert OUTCOME.search(printed)
    assert "6 of 6 lookups fused" in printed
    assert "the taker waited" in printed


@pytest.mark.slow  # test_fused_training and tests/session look at the parts
def test_every_mode_trains_wide_on_from_the_checkpoint_of_another(
    data: List[str], tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    run = str(tmp_path / "run")
    for mode in ("fused", "stock", "both", "async"):
        flags = ["--mode", mode, "--checkpoint-dir", run]
        assert command.main([*SMALL_WIDE, *FIVE_STEPS, *data, *flags]) == 0
        assert outcome(capsys) == [5, 200]
    assert tf.train.latest_checkpoint(run) == f"{run}/model.ckpt-20"


@pytest.mark.slow
def test_the_real_rows_train_to_their_end(
    shared_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    path = shared_data / "criteo_tiny.csv"
    if not path.exists():
        pytest.skip("no Criteo rows beside the checkout")
    flags = ["--data", str(path), "--epochs", "1", "--steps", "0", "--mode", "async"]
    assert command.main([*SMALL_DLRM, *flags, "--data-dir", str(tmp_path)]) == 0
    # 1,999 rows under a header line, of which every tenth line is held out.
    steps, rows = outcome(capsys)
    assert (steps, rows) == (29, 200)


@pytest.mark.slow
def test_a_config_file_is_read_and_flags_win_over_it(
    data: List[str], tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    config = tmp_path / "config.pbtxt"
    config.write_text("graph_options { optimizer_options { do_smart_stage_typo: true } }")
    flags = ["--mode", "async", "--config", str(config)]
    assert command.main([*SMALL_WIDE, *FIVE_STEPS, *data, *flags]) == 1
    assert "do_smart_stage_typo" in capsys.readouterr().err
    config.write_text("allow_soft_placement: true")
    assert command.main([*SMALL_WIDE, *FIVE_STEPS, *data, *flags]) == 0


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--data", "nothing_*.tsv"], "error: no file matches 'nothing_*.tsv'"),
        (["--delay-ms", "1"], "error: a delay needs a parameter server"),
    ],
)
def test_what_cannot_be_done_is_one_clear_line(
    flags: List[str], message: str, data: List[str], capsys: pytest.CaptureFixture
) -> None:
    assert command.main([*SMALL_DLRM, *FIVE_STEPS, *data, *flags]) == 1
    assert capsys.readouterr().err.splitlines()[-1].startswith(message)


@pytest.mark.slow  # test_criteo and tests/session/test_bad_batches look at the parts
@pytest.mark.parametrize("mode", ["stock", "async"])
def test_a_bad_row_ends_training_with_file_and_line(
    mode: str, data: List[str], tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    rows, _ = generated_files(tmp_path / "data", train_rows=2000, held_out_rows=200, seed=0)
    lines = rows.read_text().splitlines()
    lines[299] = lines[299].replace("\t", " ")
    rows.write_text("\n".join(lines) + "\n")
    flags = ["--data", str(rows), "--steps", "50", "--mode", mode]
    assert command.main([*SMALL_DLRM, *data, *flags]) == 1
    assert f"{rows}, line 300: need a label 0 or 1" in capsys.readouterr().err


def children_of(pid: int) -> List[int]:
    """Processes whose parent is the process."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found.append(int(folder.name))
    return found


@pytest.mark.slow  # test_cluster and tests/session/test_interrupt look at the parts
@pytest.mark.parametrize("mode", ["stock", "async"])
def test_ctrl_c_leaves_a_whole_checkpoint_and_no_process(mode: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    flags = ["--ps", "--steps", "0", "--mode", mode, "--data-dir", str(tmp_path)]
    files = ["--checkpoint-dir", str(run), "--checkpoint-steps", "20"]
    process = subprocess.Popen(
        [sys.executable, "-m", "tools.bench.training", *SMALL_WIDE, *flags, *files],
        cwd=str(REPOSITORY),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        universal_newlines=True,
    )
    try:
        deadline = time.monotonic() + 600
        while not (run / "model.ckpt-20.index").exists() and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        children = children_of(process.pid)
        loaded = Path(f"/proc/{process.pid}/maps").read_text()
        process.send_signal(signal.SIGINT)
        start = time.monotonic()
        _, errors = process.communicate(timeout=300)
        seconds = time.monotonic() - start
    finally:
        process.kill()
    assert process.returncode == 130
    assert errors.splitlines()[-1].startswith("interrupted: the last checkpoint is whole")
    assert seconds < 60  # 2 on a machine that has nothing else to do
    assert len(children) == 1 and not any(map(_is_running, children))
    assert tf.train.load_checkpoint(str(run)).get_tensor("global_step") >= 20
    assert ("graph_opt" in loaded) == (mode == "async")


def _is_running(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}")
