"""`key=value` settings of the command line."""

from __future__ import annotations

import pytest

from graph_opt.compat import tf
from graph_opt.config import ConfigProto, merge
from graph_opt.config.settings import settings_config, without_effect


def test_short_and_full_keys_reach_the_same_option() -> None:
    short = settings_config(["do_async_embedding=true", "threads_num=2", "opt_level=L0"])
    options = "graph_options.optimizer_options."
    full = settings_config(
        [
            options + "do_async_embedding=True",
            options + "async_embedding_options.threads_num=2",
            "optimizer_options.opt_level=L0",
        ]
    )
    assert short == full
    assert short.graph_options.optimizer_options.async_embedding_options.threads_num == 2


def test_values_of_every_kind() -> None:
    config = settings_config(
        ["allow_soft_placement=1", "per_process_gpu_memory_fraction=0.5", 'executor_type=a "b" }']
    )
    assert config.allow_soft_placement
    assert config.gpu_options.per_process_gpu_memory_fraction == 0.5
    assert config.experimental.executor_type == 'a "b" }'


def test_a_later_setting_wins_and_none_is_empty() -> None:
    config = settings_config(["opt_level=L0", "opt_level=L1", "capacity=3", "capacity=4"])
    assert config.graph_options.optimizer_options.opt_level == 0
    assert config.graph_options.optimizer_options.async_embedding_options.capacity == 4
    assert settings_config([]) == ConfigProto()


def test_false_overrides_true() -> None:
    merged = merge(
        settings_config(["do_async_embedding=true"]), settings_config(["do_async_embedding=false"])
    )
    assert not merged.graph_options.optimizer_options.do_async_embedding


def test_defaults_of_stock_options_override_nothing_and_are_found() -> None:
    settings = ["allow_soft_placement=false", "opt_level=L1", "capacity=0", "unordered=false"]
    assert without_effect([*settings, "allow_soft_placement=true"]) == settings[:2]


@pytest.mark.parametrize(
    "setting, message",
    [
        ("do_async_embedding", "write key=value"),
        (
            "do_async_embeding=true",
            "no option 'do_async_embeding'; did you mean do_async_embedding",
        ),
        (
            "graph_options.optimizer_option.opt_level=L0",
            "did you mean graph_options.optimizer_opti",
        ),
        ("zzz=1", "there is no option 'zzz'"),
        ("graph_options=1", "there is no option 'graph_options'"),
        ("threads_num=two", "threads_num=two: need a whole number of at most 32 bits"),
        ("threads_num=4294967296", "need a whole number of at most 32 bits"),
        ("threads_num=1 } capacity: 2", "need a whole number"),
        ("threads_num=", "need a whole number"),
        ("do_async_embedding=yes", "need true or false"),
        ("opt_level=L7", "need one of L1, L0"),
        ("per_process_gpu_memory_fraction=half", "need a number"),
    ],
)
def test_bad_settings_say_what_was_meant(setting: str, message: str) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        settings_config([setting])
