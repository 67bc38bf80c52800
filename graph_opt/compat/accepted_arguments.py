"""Arguments that functions of DeepRec have besides TensorFlow's, and that change no result here."""

from __future__ import annotations

import functools
import inspect
from typing import Any, Callable, List, Mapping, NamedTuple

from tensorflow.python.client import timeline

from graph_opt.compat import tf
from graph_opt.compat.legacy_names import Replacement, v1_submodules

Tell = Callable[[str], Any]

# What each stands for holds anyway. Lookups are fused by options, for all columns; an incremental
# saver brings up to date whatever its saver restores, and its nodes are in the graph's collections.
_MET = frozenset(("do_fusion", "incr_saver", "incr_saver_def"))
# Other values than the default would give other numbers, which TensorFlow cannot compute.
_ONLY_DEFAULT = frozenset(("sparse_reduction_type",))


class _Extended(NamedTuple):
    """A function of TensorFlow, and what DeepRec has added to its arguments, with defaults."""

    owner: Any
    name: str
    arguments: Mapping[str, Any]


def accepting(
    function: Callable[..., Any], tell: Tell, arguments: Mapping[str, Any]
) -> Callable[..., Any]:
    """A function that takes more keyword arguments, and does not pass them on.

    Args:
      function: What it calls.
      tell: Called with a sentence about each argument that is given in vain.
      arguments: Defaults of the arguments, by name.
    """

    @functools.wraps(function)
    def accept(*positional: Any, **named: Any) -> Any:
        for name, default in arguments.items():
            value = named.pop(name, default)
            if value != default:
                _judge(function, name, value, tell)
        return function(*positional, **named)

    signature = _extended(inspect.signature(function), arguments)
    vars(accept)["__signature__"] = signature
    return accept


def accepted_arguments(tell: Tell) -> List[Replacement]:
    """Lets functions of TensorFlow take the arguments that DeepRec has added to them.

    Args:
      tell: Called with a sentence about each argument that is given in vain.
    """
    return [
        Replacement(owner, name, accepting(getattr(owner, name), tell, arguments))
        for owner, name, arguments in _extended_functions()
    ]


def _extended_functions() -> List[_Extended]:
    iterator = "make_initializable_iterator"
    gpu = {"force_deactivate_gpu_prefetching": False}
    threads = {"use_real_thread_id": False}
    replicas = {"sparse_reduction_type": "MEAN", "sparse_accumulator_type": "multi_map"}
    found = [
        _Extended(tf.data.Dataset, iterator, gpu),
        _Extended(tf.train.ProfilerHook, "__init__", threads),
        _Extended(timeline.Timeline, "generate_chrome_trace_format", threads),
        _Extended(tf.SparseConditionalAccumulator, "__init__", {"accumulator_type": "multi_map"}),
        _Extended(tf.train.SyncReplicasOptimizer, "__init__", replicas),
        _Extended(tf.train.SessionManager, "prepare_session", {"incr_saver": None}),
    ]
    found += [_Extended(module, iterator, gpu) for module in v1_submodules("data")]
    exported = {"incr_saver_def": None}
    found += [_Extended(module, "export_meta_graph", exported) for module in v1_submodules("train")]
    return found


def _judge(function: Any, argument: str, value: Any, tell: Tell) -> None:
    if argument in _MET:
        return
    name = function.__qualname__.replace(".__init__", "")
    if argument in _ONLY_DEFAULT:
        raise ValueError(
            "{}: {} is {!r}; TensorFlow has its default alone".format(name, argument, value)
        )
    tell("{}: {} has no effect".format(name, argument))


def _extended(signature: inspect.Signature, arguments: Mapping[str, Any]) -> inspect.Signature:
    own = list(signature.parameters.values())
    rest = [one for one in own if one.kind == inspect.Parameter.VAR_KEYWORD]
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
        for name, default in arguments.items()
    ]
    return signature.replace(parameters=[*own[: len(own) - len(rest)], *added, *rest])
