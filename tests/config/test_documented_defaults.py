"""Defaults and ranges of options are as documented.

Setting an option to its default is as not setting it. Its smallest and its largest value are taken,
and what is beyond them is refused.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Callable, Dict, List, NamedTuple, Tuple, Union

from google.protobuf import text_format

from graph_opt.compat import tf
from graph_opt.config import ConfigProto
from graph_opt.config.options import SessionOptions, session_options
from graph_opt.config.schema import FIELDS
from tests.documented.option_rows import OptionRow, rows_of_options

# Everything is on, so that each option has an effect.
ALL_ON = """
graph_options { optimizer_options {
  do_async_embedding: true do_group_embedding: true do_smart_stage: true shard_tables: true
  micro_batch_num: 2 pipeline_dense: true shadow_steps: 1
  async_embedding_options {
    threads_num: 1 capacity: 2 use_stage_subgraph_thread_pool: true
    staleness_limit { table: "t" }
  }
  smart_stage_options { use_stage_subgraph_thread_pool: true }
} }
session_stage_subgraph_thread_pool {}
session_stage_subgraph_thread_pool {}
"""
PLACES = {
    "OptimizerOptions": lambda config: config.graph_options.optimizer_options,
    "AsyncEmbeddingOptions": lambda config: _optimizer(config).async_embedding_options,
    "StalenessLimit": lambda config: _optimizer(config).async_embedding_options.staleness_limit[0],
    "GroupEmbeddingOptions": lambda config: _optimizer(config).group_embedding_options,
    "ShardTablesOptions": lambda config: _optimizer(config).shard_tables_options,
    "SmartStageOptions": lambda config: _optimizer(config).smart_stage_options,
    "SessionStageSubgraphThreadPoolOptions": (
        lambda config: config.session_stage_subgraph_thread_pool[0]
    ),
}
READ: Dict[str, Callable[[str], Any]] = {
    "bool": {"true": True, "false": False}.__getitem__,
    "int32": int,
    "int64": int,
    "string": str,
}
MUST_BE_SET = "must be set"
NUMBERS = re.compile(r"(?:at least )?(-?\d+)(?: to (-?\d+))?(?:, or (-?\d+))?$")
CHOICES = re.compile(r"`(\w+)`(?:,| or|$)")
BY_SESSION = "by session"  # What is done unless it is set differs from either value.


class Default(NamedTuple):
    """What the schema says of one option."""

    message: str
    name: str
    kind: str
    default: str

    @property
    def values(self) -> List[Any]:
        """The default, and another value; 1 of something is often as none."""
        value = READ[self.kind](self.default)
        if isinstance(value, bool):
            return [value, not value]
        return [value, value + 2 if isinstance(value, int) else value + "other"]


def _optimizer(config: Any) -> Any:
    return config.graph_options.optimizer_options


def documented() -> List[Default]:
    """The options of which the schema says what they are if they are not set."""
    return [
        Default(field.message, field.name, field.kind, field.default.strip('`"'))
        for field in FIELDS
        if field.message in PLACES and field.is_scalar and not field.repeated
    ]


def _read(option: Default, *value: Any) -> Union[SessionOptions, str]:
    """What a session makes of a config with this value of one option, or without it."""
    config = text_format.Parse(ALL_ON, ConfigProto())
    place = PLACES[option.message](config)
    place.ClearField(option.name)
    for one in value:
        setattr(place, option.name, one)
    try:
        return session_options(config)
    except tf.errors.InvalidArgumentError as error:
        return error.message


def _fault(option: Default) -> str:
    unset = _read(option)
    if option.default == MUST_BE_SET:
        return "" if isinstance(unset, str) and option.name in unset else "it may be left out"
    if not isinstance(unset, SessionOptions):
        return unset
    if option.default == BY_SESSION:
        read = [unset, *(_read(option, value) for value in (True, False))]
        return "" if all(read.count(one) == 1 for one in read) else "it is as if set"
    default, other = (_read(option, value) for value in option.values)
    if not isinstance(default, SessionOptions):
        return default
    if replace(default, warnings=()) != replace(unset, warnings=()):  # It may say what is in vain.
        return "the default is another"
    return "nothing reads it" if other == unset else ""


def test_options_have_the_defaults_that_are_documented() -> None:
    options = documented()
    assert len(options) > 40
    faults = {(one.message, one.name): _fault(one) for one in options}
    assert {key: fault for key, fault in faults.items() if fault} == {}


def test_another_default_is_found() -> None:
    assert _fault(Default("OptimizerOptions", "dense_staleness", "int32", "0"))
    assert _fault(Default("GroupEmbeddingOptions", "fuse_update", "bool", "false"))
    assert _fault(Default("GroupEmbeddingOptions", "adam", "string", MUST_BE_SET))


def inside_and_outside(row: OptionRow) -> Tuple[List[Any], List[Any]]:
    """Values that a row says are taken, and values that it says are refused."""
    numbers = NUMBERS.match(row.range)
    if numbers is None:
        choices = CHOICES.findall("`{}`".format(row.range))
        return (choices, [choices[0] + "other"]) if len(choices) > 1 else ([], [])
    low, high, other = (None if one is None else int(one) for one in numbers.groups())
    taken = [one for one in (low, high, other) if one is not None]
    beyond = [min(taken) - 1] + ([] if high is None else [high + 1])
    return taken, beyond


def _range_faults(row: OptionRow) -> List[str]:
    option = Default(row.message, row.name, row.kind, "")
    taken, refused = inside_and_outside(row)
    faults = ["{} is refused".format(one) for one in taken if isinstance(_read(option, one), str)]
    for one in refused:
        read = _read(option, one)
        if not isinstance(read, str) or row.name not in read:
            faults.append("{} is taken".format(one))
    return faults


def test_options_have_the_ranges_that_are_documented() -> None:
    rows = [row for row in rows_of_options() if any(inside_and_outside(row))]
    assert len(rows) > 20
    faults = {(row.message, row.name): _range_faults(row) for row in rows}
    assert {key: fault for key, fault in faults.items() if fault} == {}


def test_another_range_is_found() -> None:
    row = OptionRow("AsyncEmbeddingOptions", "prefetch_priority", "int32", "20", "-2 to 19", "")
    assert _range_faults(row) == ["-2 is refused", "20 is taken"]
    row = OptionRow("GroupEmbeddingOptions", "adam", "string", "", "deferred`, `soon` or `lazy", "")
    assert _range_faults(row) == ["soon is refused"]
