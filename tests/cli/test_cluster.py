"""`graph-opt cluster`: scripts as real parameter servers and workers."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import List

import pytest

from graph_opt.cli.main import main
from tests.json_documents import validated

REPOSITORY = Path(__file__).resolve().parents[2]
EXAMPLES = REPOSITORY / "examples"
SCRIPTS = Path(__file__).resolve().parent / "scripts"
# What a job of four tasks on two nodes finds, as far as our script uses it.
SLURM = {
    "scontrol": "printf 'a\\nb\\n'\n",
    "srun": "shift\n"
    "export SLURM_JOB_NODELIST='[a-b]' SLURM_STEP_TASKS_PER_NODE='3,1' FIRST_PORT=5000\n"
    'export SLURM_PROCID=0; "$@" & read -r < serving\n'
    'for SLURM_PROCID in 1 2 3; do export SLURM_PROCID; "$@" & done\n'
    "wait\n",
    "graph-opt": 'echo "$TF_CONFIG" > ran_$SLURM_PROCID\n'
    "[ $SLURM_PROCID != 0 ] || { echo > serving; exec sleep 1000; }\n",
}


def run(folder: Path, arguments: List[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "graph_opt.cli", "cluster", *arguments],
        cwd=str(folder),
        env=dict(os.environ, PYTHONPATH=str(REPOSITORY), TF_CPP_MIN_LOG_LEVEL="2"),
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.slow
def test_an_estimator_trains_and_is_evaluated(tmp_path: Path) -> None:
    script = str(SCRIPTS / "trained_by_estimator.py")
    done = run(
        tmp_path,
        ["--ps", "2", "--workers", "2", "--evaluator", "--logs", "logs", "--report", "all.json"]
        + ["--", script, "model"],
    )
    assert done.returncode == 0, done.stderr
    logs = {path.stem: path.read_text() for path in (tmp_path / "logs").iterdir()}
    assert set(logs) == {"ps_0", "ps_1", "chief", "worker_0", "evaluator"}
    scores = ast.literal_eval(logs["evaluator"].splitlines()[-1])
    assert scores["global_step"] >= 400 and scores["accuracy"] == 1.0
    processes = validated((tmp_path / "all.json").read_text())["processes"]
    assert [one["task"] for one in processes] == ["chief", "evaluator", "worker 0"]
    assert "[chief] graph_opt: session 1: 1 of 1 lookup run ahead of the step" in done.stderr


@pytest.mark.slow
def test_the_script_for_slurm_gives_each_task_its_place(tmp_path: Path) -> None:
    os.mkfifo(str(tmp_path / "serving"))
    for name, text in SLURM.items():
        (tmp_path / name).write_text("#!/usr/bin/env bash\n" + text)
        (tmp_path / name).chmod(0o755)
    done = subprocess.run(
        [str(REPOSITORY / "configs" / "cluster" / "slurm.sh"), "train.py", "--epochs", "3"],
        cwd=str(tmp_path),
        env=dict(
            os.environ,
            PATH="{}:{}".format(tmp_path, os.environ["PATH"]),
            PARAMETER_SERVERS="1",
            SLURM_NTASKS="4",
            SLURM_JOB_ID="7",
            SLURM_SUBMIT_DIR=str(tmp_path),
        ),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    cluster = {"ps": ["a:5000"], "chief": ["a:5001"], "worker": ["a:5002", "b:5000"]}
    places = [("ps", 0), ("chief", 0), ("worker", 0), ("worker", 1)]
    assert [json.loads((tmp_path / "ran_{}".format(rank)).read_text()) for rank in range(4)] == [
        {"cluster": cluster, "task": {"type": job, "index": index}} for job, index in places
    ]


@pytest.mark.slow
def test_flags_tell_the_task_and_a_killed_worker_goes_on(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        ["--ps", "2", "--workers", "2", "--no-chief", "--restarts", "1", "--delay-ms", "0.5"]
        + [str(SCRIPTS / "trained_by_flags.py"), "--folder", str(tmp_path), "--killed"]
        + ["--job_name={job}", "--task_index={index}"]
        + ["--ps_hosts={ps_hosts}", "--worker_hosts={worker_hosts}"],
    )
    assert done.returncode == 0, done.stderr
    assert "worker 0 was ended by SIGKILL" in done.stderr and "started again" in done.stderr
    assert "[worker 0] loss below 0.1: True" in done.stdout
    assert "[worker 1] loss below 0.1: True" in done.stdout


def test_wrong_arguments_are_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["cluster", str(tmp_path / "none.py")]) == 2
    assert "graph-opt cluster: cannot open script" in capsys.readouterr().err
    (tmp_path / "script.py").write_text("")
    (tmp_path / "file").write_text("")
    assert main(["cluster", "--logs", str(tmp_path / "file"), str(tmp_path / "script.py")]) == 2
    assert "--logs {}".format(tmp_path / "file") in capsys.readouterr().err
    for flags, message in (
        (["--ps", "0"], "'0' is not a number, 1 or more"),
        (["--delay-ms", "-1"], "'-1' is not a number of milliseconds, 0 or more"),
        (["--gbit", "nan"], "'nan' is not a number of Gbit/s above 0"),
        ([], "cluster: no script given"),
    ):
        with pytest.raises(SystemExit):
            main(["cluster", *flags])
        assert message in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("partition", ["fixed", "min_max"])
def test_an_example_with_tables_in_slices_ends_whoever_comes_late(
    tmp_path: Path, partition: str
) -> None:
    # The other worker looks after half a minute whether the chief has initialized: it has gone.
    done = run(
        tmp_path,
        ["--ps", "2", "--workers", "2", "--", str(EXAMPLES / "dlrm.py"), "--steps", "60"]
        + ["--batch", "32", "--buckets", "1000", "--partition", partition],
    )
    assert done.returncode == 0, done.stderr
    for task in ("chief", "worker 0"):
        assert "[{}] group embedding: 26 of 26 lookups fused".format(task) in done.stdout
        assert "[{}]   updates fused: 26 of 26".format(task) in done.stdout
        assert "[{}] async embedding: 26 of 26 lookups moved".format(task) in done.stdout


@pytest.mark.slow
def test_the_estimator_of_the_examples_trains_on_a_cluster(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        ["--ps", "2", "--workers", "2", "--evaluator", "--", str(EXAMPLES / "estimator.py")]
        + ["--folder", str(tmp_path / "clicks"), "--epochs", "10"],
    )
    assert done.returncode == 0, done.stderr
    assert "[chief] group embedding: 7 of 7 lookups fused" in done.stdout
    assert "[chief] async embedding: 7 of 7 lookups moved" in done.stdout
    assert "[evaluator] step 3" in done.stdout and "[evaluator] served: 0." in done.stdout
