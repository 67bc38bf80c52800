"""Prefetching versions of `tf.train`'s sessions and creators, with TensorFlow's signatures.

DeepRec's optimizers are here, too.

Example:
  >>> config = graph_opt.ConfigProto()
  >>> options = config.graph_options.optimizer_options
  >>> options.do_async_embedding = True
  >>> options.async_embedding_options.threads_num = 1
  >>> options.async_embedding_options.capacity = 2
  >>> options.async_embedding_options.infer_io_stage = True
  >>> with graph_opt.train.MonitoredTrainingSession(config=config) as session:
  ...     while not session.should_stop():
  ...         session.run(train_op)
"""

from __future__ import annotations

from graph_opt.dynamic.import_meta_graph import import_meta_graph
from graph_opt.dynamic.incremental import IncrementalSaver
from graph_opt.dynamic.incremental_hook import IncrementalCheckpointHook
from graph_opt.optimizers.adagrad_decay import AdagradDecayOptimizer, AdagradDecayOptimizerV2
from graph_opt.optimizers.adam_async import AdamAsyncOptimizer
from graph_opt.optimizers.adam_w import AdamWOptimizer
from graph_opt.runtime.summary_hook import PrefetchSummaryHook
from graph_opt.runtime.trace_waits import StepTraceHook
from graph_opt.session.hooks import AsyncEmbeddingHook
from graph_opt.session.monitored import (
    ChiefSessionCreator,
    MonitoredSession,
    MonitoredTrainingSession,
    SingularMonitoredSession,
    WorkerSessionCreator,
)

__all__ = [
    "AdagradDecayOptimizer",
    "AdagradDecayOptimizerV2",
    "AdamAsyncOptimizer",
    "AdamWOptimizer",
    "AsyncEmbeddingHook",
    "ChiefSessionCreator",
    "IncrementalCheckpointHook",
    "IncrementalSaver",
    "MonitoredSession",
    "MonitoredTrainingSession",
    "PrefetchSummaryHook",
    "SingularMonitoredSession",
    "StepTraceHook",
    "WorkerSessionCreator",
    "import_meta_graph",
]
