"""One rank: trains in all modes in turns, and writes what it measured.

    horovodrun -np 2 python -m tools.bench.collectives.rank FOLDER

FOLDER has their setting (`launch.SETTING`), and gets a file for each rank. On its standard output
the first rank tells how far it is.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import pickle
import statistics
import sys
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional

import numpy as np
import tensorflow.compat.v1 as tf

from tools.bench.cluster.loopback import Cluster
from tools.bench.collectives.floor import exchange_alone
from tools.bench.collectives.graphs import RankGraph, rank_graph
from tools.bench.collectives.launch import SETTING
from tools.bench.collectives.lockstep import Ranks
from tools.bench.collectives.modes import SESSION_MODES, SHARDED
from tools.bench.collectives.settings import Setting
from tools.bench.collectives.traffic import (
    ALL_TO_ALLS,
    Counted,
    collectives_in,
    counters,
    traffic,
)
from tools.bench.foreign_load import watched
from tools.bench.training.contenders import Contender, open_trainer
from tools.bench.training.contenders import Setting as TrainerSetting
from tools.bench.training.sessions import STOCK
from tools.bench.turns import TimedSchedule, run_in_timed_turns

PROGRESS = "progress"
_COUNTED_STEPS = 4


def main(folder: Path) -> None:
    """Runs as one of the ranks that Horovod's launcher has started."""
    import horovod.tensorflow as hvd

    from graph_opt import sok

    tf.logging.set_verbosity(tf.logging.ERROR)
    tf.disable_v2_behavior()
    hvd.init()
    sok.init()
    setting, keep_weights = pickle.loads((folder / SETTING).read_bytes())
    with watched(refuses=False) as rounds:
        found = _measure(setting, folder if keep_weights else None)
    found["foreign_load"] = rounds
    path = folder / "rank_{}.json".format(hvd.rank())
    path.write_text(json.dumps(found), encoding="utf-8")


def _measure(setting: Setting, folder: Optional[Path]) -> Dict[str, Any]:
    ranks = Ranks()
    with contextlib.ExitStack() as stack:
        trained = [stack.enter_context(_trainer(setting, mode, ranks)) for mode in setting.trained]
        contenders = [each.contender for each in trained]
        found: Dict[str, Any] = {"modes": {each.mode: each.found for each in trained}}
        divided = next((each for each in trained if each.mode == SHARDED), None)
        if divided is not None and setting.with_floor:
            contenders.append(exchange_alone(divided.sent_by_tables, divided.dense, ranks.size))
        total, done = len(contenders) * (setting.rounds + 1), itertools.count()
        turns = run_in_timed_turns(
            contenders,
            TimedSchedule(setting.rounds, setting.seconds, setting.steps),
            lambda name, _: _tell(ranks, name, next(done), total),
            ranks.first_says,
            ranks.let_rest,
        )
        if folder is not None:
            for each in trained:
                each.write_weights(folder, ranks.number)
    found["turns"] = {
        name: [[turn.seconds_per_step, turn.cpu_seconds_per_step] for turn in taken]
        for name, taken in turns.items()
    }
    return found


class _Trainer:
    """A rank's session of one mode."""

    def __init__(self, mode: str, graph: RankGraph, contender: Contender) -> None:
        self.mode = mode
        self.contender = contender
        self.dense = sum(each.shape.num_elements() for each in graph.dense)
        self.sent_by_tables: List[float] = []
        self.found: Dict[str, Any] = {}
        self._graph = graph

    def count(self, counted: Counted, ranks: int) -> None:
        """Trains some steps and counts what they send."""
        if not counted.kinds:
            return
        taken = [
            self.contender.session.run(
                [counted.sent, self._graph.keys, self._graph.training.train_op]
            )
            for _ in range(_COUNTED_STEPS)
        ]
        sent = np.mean([each for each, _, _ in taken], axis=0)
        self.sent_by_tables = [
            float(size) for size, kind in zip(sent, counted.kinds) if kind in ALL_TO_ALLS
        ]
        dense = [each.shape.num_elements() for each in self._graph.dense]
        self.found["traffic"] = traffic(sent.tolist(), dense, ranks)._asdict()
        self.found["keys"] = statistics.mean(float(keys) for _, keys, _ in taken)

    def describe(self) -> None:
        """Keeps what graph_opt did, and the collectives of the graph that runs."""
        import graph_opt

        graph = self._graph.training.graph
        report = graph_opt.report(graph)
        self.found["report"] = "" if report is None else str(report)
        self.found["collectives"] = collectives_in(
            graph_opt.running_graph_def(graph), self._graph.training.train_op.name
        )

    def write_weights(self, folder: Path, rank: int) -> None:
        """Writes this rank's parts of tables, and on the first rank all other variables."""
        graph = self._graph.training.graph
        with graph.as_default():
            variables = tf.trainable_variables()
        tables = {table.variable.name: table.column for table in self._graph.tables}
        values = self.contender.session.run(variables)
        kept = {
            "table:" + tables[variable.name] if variable.name in tables else variable.name: value
            for variable, value in zip(variables, values)
            if rank == 0 or variable.name in tables
        }
        np.savez(str(folder / "{}.{}.npz".format(self.mode, rank)), **kept)


@contextlib.contextmanager
def _trainer(setting: Setting, mode: str, ranks: Ranks) -> Iterator[_Trainer]:
    workload = setting.model
    graph = rank_graph(workload, setting.learning, mode)
    training = graph.training
    is_counted = SESSION_MODES[mode] == STOCK and ranks.size > 1
    counted = counters(training.graph, training.train_op, ranks.number, ranks.size)
    opened = open_trainer(
        TrainerSetting(workload, setting.learning, setting.session),
        SESSION_MODES[mode],
        training,
        Cluster(),
    )
    with opened as contender:
        trainer = _Trainer(mode, graph, contender._replace(name=mode))
        if is_counted:
            trainer.count(counted, ranks.size)
        else:
            contender.run(_COUNTED_STEPS)
        trainer.describe()
        yield trainer


def _tell(ranks: Ranks, name: str, done: int, of: int) -> None:
    if ranks.number == 0:
        print(PROGRESS, done, of, name, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
