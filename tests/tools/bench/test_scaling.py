"""The simulation of many ranks: against ids that are drawn, and against what ranks have sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List

import numpy as np
import pytest

from tools.bench import charts, publish, records
from tools.bench.collectives.traffic import traffic
from tools.bench.scaling import page
from tools.bench.scaling.benchmark import BY_FREQUENCY, HASHED, lookups_of_wide, outcome_of
from tools.bench.scaling.chart import points
from tools.bench.scaling.cost import costs_of, measured_by, messages_by
from tools.bench.scaling.load import (
    CONTIGUOUS,
    MOD,
    PLACEMENTS,
    REPLICATED,
    WHOLE_TABLES,
    load_of,
    lookups_of,
    replicated_bytes,
    zipf,
)

ROWS, TABLES, WIDTH, DRAWS = 60, 3, 4, 40


def drawn_bytes(placement: str, ranks: int, rounds: int) -> np.ndarray:
    """What each rank sends to others in a step, of ids that are drawn; the mean of many steps."""
    random = np.random.default_rng(0)
    sent = np.zeros([ranks])
    for _ in range(rounds):
        for rank in range(ranks):
            for table in range(TABLES):
                ids = np.unique(random.choice(ROWS, DRAWS, p=zipf(ROWS, 1.2)))
                owners = {
                    MOD: ids % ranks,
                    CONTIGUOUS: ids * ranks // ROWS,
                    WHOLE_TABLES: np.full_like(ids, table % ranks),
                }[placement]
                for owner in owners[owners != rank]:
                    sent[rank] += 4 + 4 * WIDTH  # the row's number, and the gradient of its row
                    sent[owner] += 4 * WIDTH
    return sent / rounds


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_bytes_are_those_of_ids_that_are_drawn(placement: str, ranks: int) -> None:
    load = load_of(lookups_of(zipf(ROWS, 1.2), DRAWS, TABLES, WIDTH), placement, ranks)
    np.testing.assert_allclose(load.sent(), drawn_bytes(placement, ranks, 40), rtol=0.05)
    assert load.sent().sum() == pytest.approx(load.received().sum())
    assert load.passing() <= load.through() <= 2 * load.passing()


def test_bytes_are_those_that_ranks_have_sent() -> None:
    published = records.read(publish.PUBLISHED / "collectives.json").records
    lookups = lookups_of_wide()[HASHED]
    found = {
        each.mode: each.value
        for each in published
        if (each.figure, each.workload) == ("bytes_per_step", "wide") and "zipf" not in each.params
    }
    assert load_of(lookups, MOD, 2).sent().mean() == pytest.approx(found["sharded"], rel=0.01)
    assert replicated_bytes(lookups, 2) == pytest.approx(found["horovod"], rel=0.01)


def test_who_is_busiest() -> None:
    lookups = lookups_of_wide()
    assert load_of(lookups[BY_FREQUENCY], CONTIGUOUS, 64).unevenness > 10
    assert load_of(lookups[BY_FREQUENCY], MOD, 64).unevenness < 1.1
    # 200 tables on 512 ranks: a table on some, none on others
    assert load_of(lookups[HASHED], WHOLE_TABLES, 512).unevenness == pytest.approx(512 / 200)


def found_by(ranks: int, milliseconds: Dict[str, float]) -> List[Dict[str, Any]]:
    counted = dict(traffic=traffic([2e6, 1e6, 8.0], [1], ranks)._asdict())
    turns = {name: [[each / 1e3] * 2] * 3 for name, each in milliseconds.items()}
    return [{"modes": dict(sharded=counted, horovod=counted), "turns": turns}] * ranks


def test_costs_follow_from_what_was_measured(tmp_path: Path) -> None:
    taken = {"horovod": 50.0, "sharded": 30.0, "fused": 25.0, "local": 10.0}
    measured = [measured_by(found_by(ranks, taken)) for ranks in (2, 3, 4)]
    messages = [
        messages_by(found_by(ranks, {"exchange_alone": 7.2 + 0.4 * ranks})) for ranks in (2, 4, 8)
    ]
    costs = costs_of(measured, messages)
    assert costs.local_s == pytest.approx(0.010)
    assert costs.s_per_byte == pytest.approx(0.015 / 6e6, rel=1e-3)
    assert costs.of_message(2) == pytest.approx(0.002)
    assert costs.of_message(1) == 0 and costs.of_message(10) == pytest.approx(0.0028)
    outcome = outcome_of(measured, messages)
    assert outcome.find("message_cpu_s", "wide", "", ranks=8) is not None
    times = {mode: dict(points(outcome, "simulated_s_per_step", mode, HASHED)) for mode in
             (MOD, REPLICATED)}  # fmt: skip
    assert times[MOD][1] < times[MOD][512] < times[REPLICATED][512] / 10
    assert len(page.rows(outcome)) == len(page.time_rows(outcome)) == 8
    assert len(page.uneven_rows(outcome)) == 6
    assert len(page.measured_rows(outcome)) == 6
    assert all(line.count("|") == 8 and "|  |" not in line for line in page.measured_rows(outcome))
    assert page.message_rows(outcome)
    (picture,) = charts.write("scaling", outcome, tmp_path)
    text = picture.read_text("utf-8")
    assert "row i on rank i % N" in text and "measured" in text
