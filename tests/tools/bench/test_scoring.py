"""AUC and log loss against their definitions."""

from __future__ import annotations

import numpy as np
import pytest

from tools.bench.workloads.scoring import log_loss, roc_auc


def pairwise_auc(labels: np.ndarray, scores: np.ndarray) -> float:
    ahead = scores[labels == 1][:, None] - scores[labels == 0][None, :]
    return float(np.mean((ahead > 0) + 0.5 * (ahead == 0)))


@pytest.mark.parametrize("distinct", [3, 1000])
def test_auc_is_the_share_of_pairs_in_order_with_ties_half(distinct: int) -> None:
    random = np.random.RandomState(1)
    labels = random.randint(0, 2, 300)
    scores = random.randint(0, distinct, 300) + 0.3 * distinct * labels.round()
    assert roc_auc(labels, scores) == pytest.approx(pairwise_auc(labels, scores), abs=1e-12)


def test_auc_needs_rows_of_both_kinds() -> None:
    assert np.isnan(roc_auc(np.ones(3), np.arange(3.0)))
    assert np.isnan(roc_auc(np.zeros(0), np.zeros(0)))


def test_log_loss_is_that_of_the_probabilities_and_stays_finite() -> None:
    labels, logits = np.array([1.0, 0.0, 1.0]), np.array([0.3, -2.0, -1.0])
    probability = 1.0 / (1.0 + np.exp(-logits))
    expected = -np.mean(labels * np.log(probability) + (1 - labels) * np.log(1 - probability))
    assert log_loss(labels, logits) == pytest.approx(expected, rel=1e-12)
    assert log_loss(np.array([0.0]), np.array([1000.0])) == 1000.0
