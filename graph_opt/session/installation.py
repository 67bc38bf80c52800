"""`install` and `uninstall` put graph_opt's names where TF1 code looks for them.

This is the only module that puts names into TensorFlow, and it undoes every change.
"""

from __future__ import annotations

import atexit
import functools
import threading
from typing import Any, List, Optional, Tuple, Union

from graph_opt import contrib as contrib_room
from graph_opt.compat import tf
from graph_opt.compat.accepted_arguments import accepted_arguments
from graph_opt.compat.estimator_exports import estimator_exports
from graph_opt.compat.estimators import estimator_configs
from graph_opt.compat.imported_attributes import ImportedAttribute
from graph_opt.compat.kept_weights import scope_methods
from graph_opt.compat.keras_sessions import KERAS_SESSIONS
from graph_opt.compat.legacy_names import (
    Replacement,
    api_names,
    contrib_names,
    estimator_training,
    every_monitored_session,
    every_server,
    every_session,
    experimental_config_modules,
    graph_keys,
    lookup_functions,
    option_classes,
    remove_name,
)
from graph_opt.compat.legacy_optimizers import restore_optimizers
from graph_opt.compat.moved_names import moved_names
from graph_opt.compat.saver_arguments import incremental_arguments
from graph_opt.compat.session_creators import creator_config, creator_master
from graph_opt.compat.version_names import IS_VERSION_1
from graph_opt.config import to_stock
from graph_opt.config.deeprec_options import ExecutorPolicy, smart_stage_options
from graph_opt.config.messages import SessionConfig
from graph_opt.config.options import session_options
from graph_opt.contrib.linear import _Linear
from graph_opt.dynamic.import_meta_graph import import_meta_graph
from graph_opt.dynamic.incremental import incremental_saver_of
from graph_opt.dynamic.incremental_hook import IncrementalCheckpointHook
from graph_opt.embedding.column_scope import (
    coalesced_embedding_scope,
    group_embedding_column_scope,
)
from graph_opt.embedding.fused_lookup import fused_embedding_lookup_sparse
from graph_opt.embedding.group_lookup import group_embedding_lookup_sparse
from graph_opt.embedding.group_rows import group_embedding_lookup
from graph_opt.embedding_variable import hash_table
from graph_opt.embedding_variable import names as embedding_variable_names
from graph_opt.embedding_variable.graph_keys import GRAPH_KEYS
from graph_opt.ops.library import register_ops
from graph_opt.optimizers.adagrad_decay import AdagradDecayOptimizer, AdagradDecayOptimizerV2
from graph_opt.optimizers.adam_async import AdamAsyncOptimizer
from graph_opt.optimizers.adam_w import AdamWOptimizer
from graph_opt.reporting.warnings_given import warn_once
from graph_opt.runtime.mark import async_embedding_mark_node, mark_target_node
from graph_opt.runtime.staged import prefetch_join, staged
from graph_opt.session import config_names, monitored
from graph_opt.session.distribution_names import distribution_names
from graph_opt.session.hooks import with_async_hook
from graph_opt.session.installed_config import (
    NOTHING_INSTALLED,
    InstalledConfig,
    checked_options,
    effective_config,
    set_installed,
)
from graph_opt.session.module_aliases import ModuleAliases, libraries_of_sharded_tables
from graph_opt.session.optimization import asks_for_anything
from graph_opt.session.prefetch_hook import make_prefetch_hook
from graph_opt.session.script_modules import (
    contrib_modules,
    deeprec_modules,
    modules_of_the_api,
)
from graph_opt.session.session import InteractiveSession, Session, take_over
from graph_opt.session.session_log import say_if_none_ran
from graph_opt.session.supervisor import Supervisor
from graph_opt.strategy.distributed_strategy import (
    enable_distributed_strategy,
    enable_group_embedding,
    leave_strategy,
)

_MISSING = object()
_V1_NAMES = {
    "ConfigProto": config_names.ConfigProto,
    "GraphOptions": config_names.GraphOptions,
    "OptimizerOptions": config_names.OptimizerOptions,
    "RunOptions": config_names.RunOptions,
    "Session": Session,
    "InteractiveSession": InteractiveSession,
    "staged": staged,
    "prefetch_join": prefetch_join,
    "make_prefetch_hook": make_prefetch_hook,
    "async_embedding_mark_node": async_embedding_mark_node,
    "ExecutorPolicy": ExecutorPolicy,
    "SmartStageOptions": smart_stage_options,
    **embedding_variable_names.V1_NAMES,
}
_TRAIN_NAMES = {
    "MonitoredTrainingSession": monitored.MonitoredTrainingSession,
    "ChiefSessionCreator": monitored.ChiefSessionCreator,
    "WorkerSessionCreator": monitored.WorkerSessionCreator,
    "MonitoredSession": monitored.MonitoredSession,
    "SingularMonitoredSession": monitored.SingularMonitoredSession,
    "Supervisor": Supervisor,
    "AdamAsyncOptimizer": AdamAsyncOptimizer,
    "AdagradDecayOptimizer": AdagradDecayOptimizer,
    "AdagradDecayOptimizerV2": AdagradDecayOptimizerV2,
    "AdamWOptimizer": AdamWOptimizer,
    "mark_target_node": mark_target_node,
    "import_meta_graph": import_meta_graph,
}
_NN_NAMES = {
    "group_embedding_lookup": group_embedding_lookup,
    "group_embedding_lookup_sparse": group_embedding_lookup_sparse,
    "fused_embedding_lookup_sparse": fused_embedding_lookup_sparse,
    **embedding_variable_names.NN_NAMES,
}
_COLUMN_NAMES = {
    "coalesced_embedding_scope": coalesced_embedding_scope,
    "group_embedding_column_scope": group_embedding_column_scope,
    **embedding_variable_names.COLUMN_NAMES,
}
_API_NAMES = {
    "": _V1_NAMES,
    "train": _TRAIN_NAMES,
    "nn": _NN_NAMES,
    "feature_column": _COLUMN_NAMES,
}
_EXPERIMENTAL_NAMES = {
    "enable_distributed_strategy": enable_distributed_strategy,
    "enable_group_embedding": enable_group_embedding,
}
# Names that are DeepRec's alone, as tuples of what follows `tf.`.
DEEPREC_NAMES = frozenset(
    (*path, name)
    for path, names in (
        *((tuple(filter(None, [part])), names) for part, names in _API_NAMES.items()),
        (("config", "experimental"), _EXPERIMENTAL_NAMES),
    )
    for name in names
    if not hasattr(functools.reduce(getattr, path, tf), name)
).union(("hash_table", name) for name in hash_table.__all__)


class Installation:
    """What `install` returns; as a context manager, it uninstalls at the end of the block."""

    def __init__(self, outermost: bool) -> None:
        self._outermost = outermost

    def __enter__(self) -> Installation:
        return self

    def __exit__(self, *error: Any) -> None:
        if self._outermost:
            uninstall()


class _Installed:
    """The state of the process: what was installed and what it replaced."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.config: Optional[InstalledConfig] = None
        self.modules: List[Union[ModuleAliases, ImportedAttribute]] = []
        self.before: List[Tuple[Any, str, Any]] = []


_installed = _Installed()
_of_estimators = (
    estimator_exports(incremental_saver_of),
    estimator_configs(config_names.ConfigProto),
)


def install(
    config: Optional[SessionConfig] = None,
    infer_io_stage: Optional[bool] = None,
    defaults: Optional[SessionConfig] = None,
    sok: bool = False,
    deeprec: bool = True,
    contrib: bool = False,
) -> Installation:
    """Puts graph_opt's names into `tensorflow.compat.v1`, for scripts that know only TensorFlow.

    - `tf.ConfigProto`, `tf.RunOptions`, `tf.Session`, `tf.InteractiveSession`,
      `tf.train.MonitoredTrainingSession` and the session creators become graph_opt's.
    - DeepRec's `tf.staged`, `tf.prefetch_join`, `tf.make_prefetch_hook`,
      `tf.async_embedding_mark_node`, `tf.nn.group_embedding_lookup_sparse`,
      `tf.nn.group_embedding_lookup`, `tf.nn.fused_embedding_lookup_sparse`,
      `tf.nn.fused_safe_embedding_lookup_sparse`, `tf.nn.safe_embedding_lookup_multi_dim`,
      `tf.nn.safe_adaptive_embedding_lookup_sparse`, both also without `safe_`, and
      `tf.feature_column.group_embedding_column_scope` and `coalesced_embedding_scope` are added.
    - DeepRec's `tf.get_embedding_variable`, its options (`tf.EmbeddingVariableOption` and others),
      `tf.feature_column.categorical_column_with_embedding` and what belongs to them are added.
    - So are DeepRec's optimizers: `tf.train.AdamAsyncOptimizer`, `AdagradDecayOptimizer`,
      `AdagradDecayOptimizerV2` and `AdamWOptimizer`.
    - So are `tf.config.experimental.enable_distributed_strategy` and `enable_group_embedding`.
    - `tf.feature_column.embedding_column`, `linear_model` and other functions that DeepRec gave
      more arguments accept them.
    - `tf.estimator` trains with prefetched lookups, and all of TensorFlow accepts extended configs.
    - Keras' graph mode builds the training of a model before its session first runs.
    - What is DeepRec's alone is also added to `tensorflow` itself, which has all names in DeepRec.
    - graph_opt's ops are loaded, so that a parameter server started by the script has them.

    Modules that have already imported a name (`from tensorflow.compat.v1 import Session`) keep the
    one they have. A second call with the same arguments does nothing, so blocks may be nested.

    Args:
      config: Overrides the config of every session that the script opens; None overrides nothing.
      infer_io_stage: Replaces the option `infer_io_stage` of configs that ask for async embedding;
        None leaves it unchanged.
      defaults: Used where neither the script's config nor `config` sets a field.
      sok: Whether `import sparse_operation_kit` gives `graph_opt.sok` from now on, and
        `import distributed_embeddings` gives `graph_opt.distributed_embeddings`.
      deeprec: Whether modules that DeepRec has below TensorFlow's can be imported, such as
        `tensorflow.python.distribute.group_embedding_collective_strategy`, and whether TensorFlow
        1's private names are where they were (`control_flow_ops.while_loop`); and whether
        `pkg_resources` tells scripts of DeepRec's model zoo that its features are there.
      contrib: Whether there is a `tf.contrib`, of what recommender scripts use of it
        (`graph_opt.contrib`). TensorFlow 1 keeps its own.

    Returns:
      A context manager that uninstalls.

    Raises:
      tf.errors.FailedPreconditionError: graph_opt is installed with other arguments.
      tf.errors.InvalidArgumentError: An option of `config` is missing or out of range.

    Example:
      >>> with graph_opt.install(graph_opt.load_config("configs/async_embedding.pbtxt")):
      ...     import legacy_training_script
    """
    wanted = InstalledConfig(config, infer_io_stage, defaults)
    contrib = contrib and not IS_VERSION_1
    of_deeprec = ((deeprec_modules, deeprec), (distribution_names, deeprec))
    offered = ((libraries_of_sharded_tables, sok), *of_deeprec)
    wanted_modules = [one for one, is_wanted in (*offered, (contrib_modules, contrib)) if is_wanted]
    modules = [modules_of_the_api, *_of_estimators, *KERAS_SESSIONS, *wanted_modules]
    with _installed.lock:
        if _installed.config is None:
            session_options(wanted.over(None))  # Whoever opens a session is warned.
            _put_names(wanted, deeprec, contrib)
            _installed.modules = modules
            for one in modules:
                one.put()
            if _asks(wanted):
                atexit.register(say_if_none_ran)
            return Installation(outermost=True)
        if _installed.config == wanted and _installed.modules == modules:
            return Installation(outermost=False)
    raise tf.errors.FailedPreconditionError(
        None,
        None,
        "graph_opt is already installed with a different config, infer_io_stage, defaults, sok, "
        "deeprec or contrib: call graph_opt.uninstall() before installing it with new ones",
    )


def uninstall() -> None:
    """Restores everything that `install` replaced; does nothing if graph_opt is not installed.

    Open sessions are not affected.

    Example:
      >>> graph_opt.install()
      >>> users = tf.get_embedding_variable("users", 16)
      >>> graph_opt.uninstall()
    """
    with _installed.lock:
        if _installed.config is not None and _asks(_installed.config):
            atexit.unregister(say_if_none_ran)
            say_if_none_ran()
        leave_strategy()  # which takes back what it put over the installed names
        while _installed.before:
            owner, name, value = _installed.before.pop()
            _restore(owner, name, value)
        _installed.config = None
        for one in _installed.modules:
            one.take_back()
        _installed.modules = []
        restore_optimizers()  # which sok.init() may have replaced
        set_installed(NOTHING_INSTALLED)


def is_installed() -> bool:
    """Whether `install` is in force."""
    return _installed.config is not None


def _asks(installed: InstalledConfig) -> bool:
    """Whether every session is to be optimized, regardless of its own config."""
    return asks_for_anything(installed.over(None))


def _put_names(wanted: InstalledConfig, has_deeprec: bool, has_contrib: bool) -> None:
    register_ops()
    replacements = _replacements()
    if has_deeprec:
        replacements += moved_names()
    if has_contrib:
        replacements += contrib_names(contrib_room, _Linear)
    # All values are saved before the first is replaced: some modules re-export a new value.
    _installed.before = [
        (owner, name, vars(owner).get(name, _MISSING)) for owner, name, _ in replacements
    ]
    _installed.config = wanted
    for owner, name, value in replacements:
        setattr(owner, name, value)
    set_installed(wanted)


def _replacements() -> List[Replacement]:
    found: List[Replacement] = []
    for part, names in _API_NAMES.items():
        found += api_names(part, names)
    found += [
        Replacement(module, name, value)
        for module in experimental_config_modules()
        for name, value in _EXPERIMENTAL_NAMES.items()
    ]
    found += lookup_functions(_NN_NAMES)
    found += option_classes(embedding_variable_names.OPTIONS)
    found += graph_keys(GRAPH_KEYS)
    found += scope_methods()
    found += accepted_arguments(warn_once)
    found += incremental_arguments(incremental_saver_of, IncrementalCheckpointHook)
    found += estimator_training(monitored.MonitoredTrainingSession)
    found += every_session(_session_config, _opened)
    found += every_monitored_session(_hooks_for)
    return found + every_server(_stock_or_none)


def _session_config(config: Any, target: Any) -> Any:
    """The config that a session is actually opened with."""
    wanted = effective_config(config)
    if wanted is not None:
        checked_options(wanted, _text(target))
    return _stock_or_none(wanted, target)


def _opened(session: Any, config: Any) -> None:
    take_over(session, effective_config(config))


def _hooks_for(hooks: Any, session_creator: Any) -> Any:
    config = effective_config(creator_config(session_creator))
    return with_async_hook(hooks, config, creator_master(session_creator))


def _stock_or_none(config: Any, target: Any) -> Any:
    return None if config is None else to_stock(config, _text(target))


def _text(target: Any) -> str:
    return target.decode("utf-8") if isinstance(target, bytes) else target


def _restore(owner: Any, name: str, value: Any) -> None:
    if value is not _MISSING:
        setattr(owner, name, value)
    else:
        remove_name(owner, name)
