"""The benchmark of DeepRec's scripts: its parts, and its quick form."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any, Dict

import numpy as np
import pytest

from graph_opt.compat import tf
from tools.bench import __main__ as command
from tools.bench.charts import svg
from tools.bench.deeprec import data, modes, page, scripts
from tools.bench.deeprec.figures import CSV, CSV_LOOKUPS, Found, done_by, outcome_of
from tools.bench.deeprec.training import Training, TrainingFailed, Turn
from tools.bench.deeprec.turn_hook import TurnHook

MILLISECONDS = {
    modes.STOCK: 8,
    modes.ASYNC: 6,
    modes.BOTH: 4,
    modes.DECODE: 2,
}


def report(summary: str) -> Dict[str, Any]:
    sessions = [{"summary": summary}, {"summary": "9 of 9 lookups run ahead of the step"}]
    return {"processes": [{"sessions": sessions}]}


def test_figures_and_table_of_a_script() -> None:
    turns = {mode: [Turn(each / 1e3, 4e-3)] * 2 for mode, each in MILLISECONDS.items()}
    said = (
        "7 of 8 lookups fused into 1 op, 8 of 8 run ahead of the step; smart stage: 6 nodes more "
        "moved ahead of the step with the lookups, 2 tensors of theirs cross"
    )
    found = Found(turns, {modes.STOCK: 0.75, modes.BOTH: 0.7512}, {modes.BOTH: report(said)})
    outcome = outcome_of(CSV_LOOKUPS, {"batch": 512}, found)
    values = {(each.figure, each.mode): each.value for each in outcome.records}
    assert values["steps_per_s", modes.BOTH] == pytest.approx(250)
    assert values["ratio_to_stock", modes.BOTH] == pytest.approx(2)
    assert values["ratio_to_async", modes.BOTH] == pytest.approx(1.5)
    assert values["decode_share", modes.STOCK] == pytest.approx(0.25)
    assert ("steps_per_s", modes.DECODE) not in values
    stock, ahead, both = page.rows(outcome)
    assert stock == "| CSV and lookups | TensorFlow alone | 125 |  |  | 0.750 |"
    assert ahead.startswith("| CSV and lookups | `do_async_embedding` | 167 | **1.33** (")
    assert both.endswith("| 7 of 8 fused, 8 ahead, 6 nodes ahead | 0.751 |")
    assert {line.count("|") for line in (*page.HEAD, stock, both)} == {7}
    assert "CSV and lookups, with do_smart_stage" in svg(page.deeprec_chart(outcome))


def test_what_was_done_is_read_from_the_session_that_trains() -> None:
    assert done_by(report("6 of 7 lookups run ahead of the step")) == {
        "lookups": 7,
        "lookups_ahead": 6,
    }
    assert done_by(report("smart stage: 8 nodes moved ahead of the step, 4 tensors cross")) == {
        "nodes_ahead": 8
    }


@pytest.mark.parametrize("model", ["dlrm", "din"])
def test_scripts_get_sizes_and_turns(tmp_path: Path, model: str) -> None:
    script = scripts.write_stock_script(model, tmp_path, {"BUCKETS": "777"})
    scripts.let_take_turns(script)
    text = script.read_text("utf-8")
    compile(text, str(script), "exec")
    assert "\nBUCKETS = 777\n" in text and text.count("TurnHook()") == 1
    with pytest.raises(ValueError, match="the script has 0 places"):
        scripts.write_script(model, tmp_path, {"ROWS": "1"})


def test_labels_of_generated_rows_can_be_learned(tmp_path: Path) -> None:
    rows, others = (data.rows_of(5000, 3, 2, seed) for seed in (0, 1))
    # Ids of one set of rows tell the labels of another.
    rates = [
        np.bincount(ids, rows.label, data.IDS) / np.maximum(np.bincount(ids, None, data.IDS), 1)
        for ids in rows.ids.T
    ]
    scores = sum(rate[ids] for rate, ids in zip(rates, others.ids.T))
    clicked, passed = (scores[others.label == label].mean() for label in (1, 0))
    assert clicked - passed > 0.05
    data.write_criteo(tmp_path / "criteo.csv", 4, 3, 2, 0)
    data.write_taobao(tmp_path / "taobao.csv", 4, 0)
    data.write_nested(tmp_path / "nested.csv", 4, 3, 2, 0)
    first = (tmp_path / "criteo.csv").read_text("utf-8").splitlines()[0].split(",")
    assert len(first) == 1 + 2 + 3 and len(first[-1]) == 8
    assert len((tmp_path / "taobao.csv").read_text("utf-8").splitlines()[3].split(",")) == 11
    assert len((tmp_path / "nested.csv").read_text("utf-8").splitlines()) == 4


def test_a_training_steps_when_it_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("turn 1 2\nturn 0 3\n"))
    step = tf.assign_add(tf.train.get_or_create_global_step(), 1)
    with pytest.raises(EOFError, match="nobody measures"):
        with tf.train.MonitoredSession(hooks=[TurnHook()]) as session:
            while True:
                done = session.run(step)
    assert done == 6
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["turn", "turn"]


def test_a_script_that_fails_is_told(tmp_path: Path) -> None:
    with Training("wdl", ["-c", "raise SystemExit('no data')"], tmp_path / "wdl") as training:
        with pytest.raises(TrainingFailed, match="wdl ended with exit code 1: no data"):
            training.turn(1, 1)


def test_a_script_may_have_no_steps_left_after_its_last_turn(tmp_path: Path) -> None:
    program = (
        "import os; input(); os.close(0); print('turn 3 6', flush=True); print('AUC = 0.5'); "
        "print('on = off = 1'); print('done')"
    )
    with Training("wdl", ["-c", program], tmp_path) as training:
        assert training.turn(1, 3) == Turn(1.0, 2.0)
        assert training.finish() == {"AUC": "0.5", "on": "off = 1"}


@pytest.mark.slow
def test_the_quick_form(tmp_path: Path) -> None:
    assert command.main(["deeprec", "--quick", "--output", str(tmp_path)]) == 0
    content = json.loads((tmp_path / "deeprec.json").read_text("utf-8"))
    assert "absent" not in content
    found = {(r["workload"], r["mode"], r["figure"]): r["value"] for r in content["records"]}
    for mode in modes.ZOO_MODES:
        assert found["wdl", mode, "steps_per_s"] > 0 and 0 <= found["wdl", mode, "auc"] <= 1
    assert found["wdl", modes.FLAGS, "lookups_fused"] == found["wdl", modes.FLAGS, "lookups"] > 6
    assert found["wdl", modes.EV, "lookups_ahead"] > 6
    # What only runs ahead changes no number.
    assert found[CSV, modes.SMART, "auc"] == found[CSV, modes.STOCK, "auc"]
    assert found[CSV, modes.SMART, "nodes_ahead"] > 0
    assert found[CSV_LOOKUPS, modes.BOTH, "nodes_ahead"] > 0
    assert found[CSV, modes.STOCK, "decode_share"] > 0
