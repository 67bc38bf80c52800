"""Scores of a model on held-out rows: AUC and log loss, exact."""

from __future__ import annotations

from typing import Any, Callable, Dict, NamedTuple, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from tools.bench.workloads.workload import Workload, evaluation_graph


class Score(NamedTuple):
    """How well a model ranks and how well its probabilities are calibrated, over `rows` rows."""

    auc: float
    log_loss: float
    rows: int

    def __str__(self) -> str:
        return f"AUC {self.auc:.4f}, log loss {self.log_loss:.4f} on {self.rows} held-out rows"


def evaluate(workload: Workload, checkpoint_directory: str) -> Score:
    """Scores the newest checkpoint on the workload's held-out rows, in this process.

    Raises:
      FileNotFoundError: there is no checkpoint.
    """
    checkpoint = tf.train.latest_checkpoint(checkpoint_directory)
    if checkpoint is None:
        raise FileNotFoundError(f"no checkpoint in '{checkpoint_directory}'")
    return _score(workload, lambda session: tf.train.Saver().restore(session, checkpoint))


def evaluate_weights(workload: Workload, weights: Dict[str, np.ndarray]) -> Score:
    """Scores weights on the workload's held-out rows, in this process.

    Args:
      workload: what they were trained on.
      weights: the values of all trainable variables of its evaluation graph, by their names.

    Raises:
      KeyError: one is missing.
    """

    def assign(session: tf.Session) -> None:
        for variable in tf.trainable_variables():
            variable.load(weights[variable.name], session)

    return _score(workload, assign)


def roc_auc(labels: np.ndarray, scores: np.ndarray) -> float:
    """Probability that a random positive row scores above a random negative one, ties half.

    Args:
      labels: [N], 1 for positive rows, 0 for negative ones.
      scores: [N], any monotonic function of the probability.

    Returns:
      The area under the ROC curve in [0, 1]; nan unless both kinds of rows are there.

    Example:
      >>> roc_auc(np.array([0, 1, 1]), np.array([0.1, 0.1, 0.7]))
      0.75
    """
    positives = int(labels.sum())
    negatives = labels.size - positives
    if not positives or not negatives:
        return float("nan")
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    last_rank = np.cumsum(counts)
    mean_rank = last_rank - (counts - 1) / 2.0  # of each group of equal scores, from 1
    rank_sum = mean_rank[inverse][labels == 1].sum()
    return float((rank_sum - positives * (positives + 1) / 2.0) / (positives * negatives))


def log_loss(labels: np.ndarray, logits: np.ndarray) -> float:
    """Mean negative log likelihood in nats of labels [N] (0 or 1) under logits [N]."""
    return float(np.mean(np.logaddexp(0.0, logits) - labels * logits))


def _score(workload: Workload, restore: Callable[[tf.Session], Any]) -> Score:
    logits, labels = _predictions(workload, restore)
    return Score(roc_auc(labels, logits), log_loss(labels, logits), labels.size)


def _predictions(
    workload: Workload, restore: Callable[[tf.Session], Any]
) -> Tuple[np.ndarray, np.ndarray]:
    graph, logits, label = evaluation_graph(workload)
    outputs, labels = [], []
    with graph.as_default(), tf.Session() as session:
        restore(session)
        step = session.make_callable([logits, label])
        while True:
            try:
                batch_logits, batch_labels = step()
            except tf.errors.OutOfRangeError:
                break
            outputs.append(batch_logits)
            labels.append(batch_labels)
    if not outputs:
        return np.zeros(0), np.zeros(0)
    return np.concatenate(outputs).ravel().astype(np.float64), np.concatenate(labels).ravel()
