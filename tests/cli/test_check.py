"""`graph-opt check` with real scripts, each run of which is a process of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List

import pytest

from tests.forked_programs import Ended, start_graph_opt
from tests.json_documents import validated

SCRIPTS = Path(__file__).resolve().parent / "scripts"
FUSED = ("--set", "do_group_embedding=true")
BOTH = (*FUSED, "--set", "do_async_embedding=true", "--set", "infer_io_stage=true",
        "--set", "threads_num=2", "--set", "capacity=3")  # fmt: skip
ONLY_FUSED = FUSED


def check(folder: Path, *arguments: str, **environment: str) -> Ended:
    return start_graph_opt(["check", *arguments], folder, **environment).wait()


def checked(folder: Path, *arguments: str) -> Dict[str, Any]:
    """The result as JSON, of a script that ran to its end."""
    ended = check(folder, "--json", "result.json", *arguments)
    result: Dict[str, Any] = validated((folder / "result.json").read_text())
    result["code"], result["printed"] = ended.returncode, ended.stdout + ended.stderr
    return result


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("checked.py", "estimator.py", "view.py"):
        (tmp_path / name).write_bytes((SCRIPTS / name).read_bytes())
    return tmp_path


@pytest.mark.slow
def test_a_prefetched_and_fused_script_computes_the_same(folder: Path) -> None:
    result = checked(folder, *BOTH, "checked.py")
    assert result["code"] == 0 and result["verdict"] in ("equal", "rounding"), result["printed"]
    assert result["updates"] == 13  # with the one that meets the end of the input
    assert "2 of 2 run ahead" in result["sessions"][0]
    assert "initial values that differed" in result["notes"][0]
    assert result["staleness"]["bits_differ"] > 0
    assert "ahead of updates: rows miss updates" in result["printed"]
    assert not list(folder.glob("checkpoint*"))


@pytest.mark.slow
def test_exact_rows_have_the_bits_of_rows_that_are_not_ahead(folder: Path) -> None:
    result = checked(folder, *BOTH, "--set", "exact=true", "checked.py")
    assert result["code"] == 0 and result["verdict"] in ("equal", "rounding"), result["printed"]
    assert any("values had the same bits" in note for note in result["notes"])
    assert result["staleness"] is None


@pytest.mark.slow
def test_an_update_with_other_numbers_is_found_with_its_pass(folder: Path) -> None:
    result = checked(
        folder, *BOTH, "--set", "adam=lazy", "--steps", "8", "checked.py", "--optimizer", "Adam"
    )
    assert result["code"] == 1 and result["verdict"] == "different", result["printed"]
    assert result["culprit"] == "fuse_group_embedding, its updates of tables"
    assert result["certainty"].startswith("certain")
    assert "sigmoid_cross_entropy_loss" in result["first"]["what"]
    assert result["updates"] == 8 and 1 < result["first"]["updates"] <= 8
    assert "what the runs printed is in" in result["printed"]


@pytest.mark.slow
def test_a_worker_of_servers_computes_the_same(folder: Path) -> None:
    result = checked(folder, "--ps", "2", *BOTH, "checked.py")
    assert result["code"] == 0 and result["verdict"] in ("equal", "rounding"), result["printed"]
    assert result["updates"] == 13 and "2 of 2 run ahead" in result["sessions"][0]
    assert "initial values that differed" in result["notes"][0]  # They are assigned on the servers.
    assert result["values"] >= 12 + 9 and result["staleness"]["bits_differ"] > 0


@pytest.mark.slow
def test_servers_whose_updates_have_other_numbers_differ(folder: Path) -> None:
    arguments = ("--set", "adam=lazy", "--steps", "4", "checked.py", "--optimizer", "Adam")
    result = checked(folder, "--ps", "1", *ONLY_FUSED, *arguments)
    assert result["code"] == 1 and result["verdict"] == "different", result["printed"]
    assert result["culprit"] == "fuse_group_embedding, its updates of tables"
    logs = result["printed"].split("what the runs printed is in ")[1].strip()
    assert "[chief] " in (Path(logs) / "rewritten.log").read_text()


@pytest.mark.slow
def test_a_script_that_does_not_use_its_servers_is_not_told_to_be_equal(folder: Path) -> None:
    text = "import os, runpy\ndel os.environ['TF_CONFIG']\nrunpy.run_path('checked.py')\n"
    (folder / "local.py").write_text(text)
    ended = check(folder, "--ps", "1", "--tf1", *ONLY_FUSED, "local.py")
    assert ended.returncode == 2, ended.stdout
    assert "could not be checked: no session of the worker talked to a server" in ended.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    "flag, named",
    [
        ("--shuffle", "unrepeatable: shuffle without a seed"),
        ("--feed-random", "fed with other values, "),
    ],
)
def test_a_script_that_differs_from_itself_raises_no_alarm(
    folder: Path, flag: str, named: str
) -> None:
    result = checked(folder, *ONLY_FUSED, "--steps", "3", "checked.py", flag)
    assert result["code"] == 2 and result["verdict"] == "unchecked", result["printed"]
    assert "two stock runs differ as well" in result["reason"]
    assert named in result["printed"]


@pytest.mark.slow
def test_sessions_that_nobody_closes_and_updates_by_scattering_are_compared(folder: Path) -> None:
    arguments = ("--feed", "--optimizer", "GradientDescent")
    result = checked(folder, *ONLY_FUSED, "--steps", "50", "checked.py", *arguments)
    assert result["code"] == 0, result["printed"]
    assert result["updates"] == 12 and result["values"] == 12 + 5
    assert "the script trained 12 steps, fewer than the 50 of --steps" in result["notes"]


@pytest.mark.slow
def test_the_decays_of_a_step_that_meets_the_end_are_no_difference(folder: Path) -> None:
    arguments = ("--optimizer", "Adam", "--seed", "3")
    result = checked(folder, *ONLY_FUSED, "checked.py", *arguments)
    assert result["code"] == 0, result["printed"]
    assert "training step 13 raised OutOfRangeError" in result["notes"][-1]


@pytest.mark.slow
def test_a_run_that_fails_only_when_it_is_rewritten_differs(folder: Path) -> None:
    result = checked(folder, "checked.py", "--fail-at-end")
    assert result["code"] == 1, result["printed"]
    assert "RuntimeError: only when rewritten, which stock does not" in result["first"]["what"]
    assert result["culprit"] == "async_embedding"


@pytest.mark.slow
def test_of_a_script_that_kills_itself_it_is_known_what_was_rewritten(folder: Path) -> None:
    text = (folder / "checked.py").read_text() + "os._exit(4)\n"
    (folder / "killed.py").write_text(text)
    result = checked(folder, *ONLY_FUSED, "killed.py", "--feed")
    assert result["code"] == 0 and "2 of 2 lookups fused" in result["sessions"][0]
    assert any("variables at the end were not compared" in note for note in result["notes"])
    assert "the script itself ended with exit code 4" in result["notes"]


@pytest.mark.slow
def test_each_run_goes_on_from_the_same_checkpoint(folder: Path) -> None:
    model = folder / "model"
    trained = start_graph_opt(["run", "checked.py", "--model-dir", str(model)], folder).wait()
    assert "trained to step 12" in trained.stdout, trained.stderr
    before = sorted(path.name for path in model.iterdir())
    result = checked(folder, *ONLY_FUSED, "checked.py", "--model-dir", str(model))
    assert result["code"] == 0 and result["updates"] == 13, result["printed"]
    assert "is a folder of its own in each run" in result["printed"]
    assert sorted(path.name for path in model.iterdir()) == before


@pytest.mark.slow
def test_checkpoints_that_all_runs_would_share_are_refused(folder: Path) -> None:
    shared, here = folder / "shared", folder / "here"
    shared.mkdir()
    (shared / "something").touch()
    here.mkdir()
    (here / "checked.py").write_bytes((folder / "checked.py").read_bytes())
    result = checked(here, "checked.py", "--model-dir", str(shared))
    assert result["code"] == 2 and "saves checkpoints in '" in result["reason"]


@pytest.mark.slow
def test_a_run_finds_nothing_that_another_has_written_and_changes_no_file(folder: Path) -> None:
    (folder / "code").mkdir()
    text = (folder / "checked.py").read_text()
    text += "open('log.txt', 'a').write('ran')\n"
    text = text.replace("flags.model_dir)", "os.path.dirname(os.path.realpath(__file__)) + '/m')")
    (folder / "code" / "train.py").write_text(text)
    for kept in ("log.txt", "code/m/notes.txt"):
        (folder / kept).parent.mkdir(exist_ok=True)
        (folder / kept).write_text("user")
    result = checked(folder, *ONLY_FUSED, "--steps", "4", "code/train.py")
    assert result["code"] == 0 and result["updates"] == 4, result["printed"]
    assert (folder / "log.txt").read_text() == "user"
    assert [path.name for path in (folder / "code" / "m").iterdir()] == ["notes.txt"]


@pytest.mark.slow
def test_an_estimator_trains_into_a_folder_of_its_own_in_each_run(folder: Path) -> None:
    result = checked(folder, "estimator.py", str(folder / "model"))
    assert result["code"] == 0 and result["verdict"] in ("equal", "rounding"), result["printed"]
    assert result["updates"] == 5 and result["values"] > 5
    assert not (folder / "model").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments, expected",
    [
        (["view.py"], "no step of a session was run: it ended with exit code 7"),
        (["eager.py"], "no step of a session was run"),
        (["broken.py"], "no step of a session was run: it ended with exit code 1: SyntaxError"),
    ],
)
def test_a_script_without_steps_cannot_be_checked(
    folder: Path, arguments: list, expected: str
) -> None:
    (folder / "eager.py").write_text("import tensorflow as tf\nprint(tf.constant(1))\n")
    (folder / "broken.py").write_text("import tensorflow as tf\nif tf\n")
    ended = check(folder, *arguments)
    assert ended.returncode == 2
    assert "verdict: could not be checked: " + expected in ended.stdout


@pytest.mark.slow
@pytest.mark.parametrize("cluster", [[], ["--ps", "1"]])
def test_an_option_that_only_tensorflow_knows_to_be_wrong_is_one_line(
    folder: Path, cluster: List[str]
) -> None:
    ended = check(folder, *cluster, "--set", "absent=1", "checked.py")
    assert ended.returncode == 2 and ended.stdout == ""
    assert ended.stderr.startswith("graph-opt check: there is no option 'absent'")


@pytest.mark.slow
def test_wrong_arguments_are_one_line(folder: Path) -> None:
    for arguments, expected in (
        (["absent.py"], "cannot open script 'absent.py': No such file or directory"),
        (["--config", "absent.pbtxt", "view.py"], "absent.pbtxt: there is no such config file"),
        (["--json", "absent/x.json", "view.py"], "cannot write 'absent/x.json'"),
        (["--workers", "2", "view.py"], "--workers and --no-chief are for clusters"),
    ):
        ended = check(folder, *arguments)
        assert ended.returncode == 2 and ended.stdout == ""
        assert ended.stderr.splitlines()[-1].startswith("graph-opt check: " + expected)
    assert "0 is not" in check(folder, "--steps", "0", "view.py").stderr.replace("'", "")
    ended = check(folder, "--ps", "1", "--workers", "2", "view.py")
    assert ended.returncode == 2 and "could not be checked: the updates of 2 work" in ended.stdout
