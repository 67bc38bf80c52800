"""`graph-opt export`, and `graph-opt check --requests`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import List

import numpy as np
import pytest

from graph_opt.cli.main import main
from graph_opt.compat import tf
from graph_opt.compat.saved_models import parse_saved_model
from tests.json_documents import validated
from tests.serving.mapped_models import export, fill, two_tables
from tests.serving.models_to_serve import of_examples, of_placeholders, save


def test_a_model_is_exported_and_checked(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    request = save(of_placeholders, tmp_path / "model")
    served = str(tmp_path / "served")
    assert main(["export", str(tmp_path / "model"), "-o", served]) == 0
    told = capsys.readouterr()
    assert told.out.startswith("4 of 4 lookups fused into 1 op; ")
    assert not told.err  # Not TensorFlow's advice either.
    np.savez(str(tmp_path / "requests.npz"), **request)
    report = tmp_path / "result.json"
    command = ["check", "--json", str(report), "--requests", str(tmp_path / "requests.npz")]
    assert main([*command, served]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "3 requests compared: equal bit for bit"
    assert told[1].split("  ")[0] == "signature"
    outputs = validated(report.read_text("utf-8"))["outputs"]
    assert {one["output"] for one in outputs} == {"first", "scores"}
    assert all(one["difference"] == 0.0 and one["requests"] == 3 for one in outputs)


def test_serialized_examples_are_requests(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    request = save(of_examples, tmp_path / "model")
    served, file = str(tmp_path / "served"), str(tmp_path / "rows.tfrecord")
    with tf.io.TFRecordWriter(file) as writer:
        for example in request["examples"]:
            writer.write(example)
    assert main(["export", str(tmp_path / "model"), "-o", served]) == 0
    assert main(["check", "--requests", file, served]) == 0
    assert "requests compared: equal bit for bit" in capsys.readouterr().out


def test_options_without_effect_are_told(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    save(of_placeholders, tmp_path / "model")
    command = ["export", str(tmp_path / "model"), "-o", str(tmp_path / "served")]
    assert main([*command, "--set", "do_smart_stage=true", "--set", "minimum_lookups=2"]) == 0
    told = capsys.readouterr().err
    assert "this has no effect: graph_options.optimizer_options.do_smart_stage\n" in told


def test_tables_are_mapped_and_updated(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    exported = export(two_tables, tmp_path, fill(2.0))
    served, again = str(exported.folder), str(tmp_path / "again")
    assert main(["export", str(tmp_path / "model"), "-o", again, "--map-tables"]) == 0
    assert "2 tables and 1 other variable mapped from files" in capsys.readouterr().out
    assert main(["update", served, *exported.checkpoints]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith("{}/updates/1: 3 tables replaced, 0 rows".format(served))
    assert told[-1] == "servers that start: start from it"
    assert main(["update", served, *exported.checkpoints, "-o", str(tmp_path / "update")]) == 0
    assert "servers that start" not in capsys.readouterr().out
    for arguments, code, message in (
        ([served, str(tmp_path / "model" / "variables" / "variables")], 1, "nothing differs"),
        ([served, str(tmp_path / "none")], 2, "there is no checkpoint"),
        ([str(tmp_path / "model"), *exported.checkpoints], 2, "has no mapped tables"),
        ([str(tmp_path / "none"), *exported.checkpoints], 2, "none: no such file"),
        ([served, *exported.checkpoints, "-o", again], 2, "again: exists already"),
    ):
        assert main(["update", *arguments]) == code
        assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments, code, message",
    [
        (["export", "{}/none", "-o", "{}/out"], 2, "none: no such file"),
        (["export", "{}/model", "-o", "{}/model"], 2, "model: exists already"),
        (["export", "{}/model", "-o", "{}/out", "--tags", "gpu"], 2, "choose one by its tags"),
        (["export", "{}/model", "-o", "{}/out", "--set", "minimum_lookups=9"], 1, "no lookup can"),
        (["export", "{}/model", "-o", "{}/out", "--fetch", "a=b"], 2, "a SavedModel has signat"),
        (["export", "{}/model", "-o", "/proc/out"], 2, "/proc/out: cannot be written: No such"),
        (["export", "{}/model", "-o", "{}/out", "--requests", "{}/torn.npz"], 2, "no .npz file"),
        (["update", "{}/served", "{}/served"], 2, "with --map-tables or --table-dtype\n"),
        (["check", "--requests", "{}/none.npz", "{}/model"], 2, "none.npz: no such file"),
        (["check", "--requests", "{}/r.npz", "{}/model"], 2, "give a folder that graph-opt export"),
        (["check", "--requests", "{}/few.npz", "{}/served"], 2, "serving_default needs f1, f2, f3"),
        (["check", "--requests", "{}/torn.npz", "{}/served"], 2, "torn.npz: cannot be read"),
        (["check", "--requests", "{}/r.npz", "a", "b"], 2, "goes with one folder"),
    ],
)
def test_wrong_arguments_are_told(
    arguments: List[str],
    code: int,
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture,
) -> None:
    request = save(of_placeholders, tmp_path / "model")
    np.savez(str(tmp_path / "r.npz"), **request)
    np.savez(str(tmp_path / "few.npz"), f0=request["f0"])
    (tmp_path / "torn.npz").write_bytes((tmp_path / "r.npz").read_bytes()[:100])
    assert main(["export", str(tmp_path / "model"), "-o", str(tmp_path / "served")]) == 0
    capsys.readouterr()
    assert main([text.format(tmp_path) for text in arguments]) == code
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_file_of_a_saved_model_stands_for_its_folder(tmp_path: Path) -> None:
    save(of_placeholders, tmp_path / "model")
    served = tmp_path / "served"
    assert main(["export", str(tmp_path / "model" / "saved_model.pb"), "-o", str(served)]) == 0
    assert (served / "variables").exists()


def test_a_name_without_a_tensor_is_wrong_usage(capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit):
        main(["export", "model", "-o", "served", "--feed", "user"])
    assert "'user' is not NAME=TENSOR, such as user=user:0" in capsys.readouterr().err


def test_a_difference_is_found(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """Of an export whose fused graph was made to compute something else."""
    request = save(of_placeholders, tmp_path / "model")
    np.savez(str(tmp_path / "r.npz"), **request)
    served = tmp_path / "served"
    assert main(["export", str(tmp_path / "model"), "-o", str(served)]) == 0
    saved_model = parse_saved_model(str(served))
    for node in saved_model.meta_graphs[1].graph_def.node:
        if node.name == "scores":
            node.op = "Tanh"
    (served / "saved_model.pb").write_bytes(saved_model.SerializeToString())
    capsys.readouterr()
    assert main(["check", "--requests", str(tmp_path / "r.npz"), str(served)]) == 1
    told = capsys.readouterr().out.splitlines()
    assert "of the largest value" in told[0]
    assert re.fullmatch(
        "too far apart: scores of serving_default, by [0-9.]+ times the largest value; rounding "
        "explains 1e-05", told[-1]
    )  # fmt: skip
