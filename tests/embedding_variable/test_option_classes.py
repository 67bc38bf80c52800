"""DeepRec's options: what they hold, what they reject, and which table they make."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Callable

import pytest

import graph_opt
from graph_opt.embedding_variable.embedding import config_pb2
from graph_opt.embedding_variable.embedding.config_pb2 import CacheStrategy, StorageType
from graph_opt.embedding_variable.table_options import table_options
from graph_opt.reporting.warnings_given import forget_warnings, warnings_given

BAD_SIZE: Any = {"storage_size": 1 << 30}


def made_of(**options: Any) -> Any:
    option = graph_opt.EmbeddingVariableOption(**options)
    return json.loads(table_options("table", option, 4096).to_json("table", 16))


@pytest.mark.parametrize(
    ("options", "made"),
    [
        ({}, {}),
        ({"filter_option": graph_opt.CounterFilter(0)}, {}),
        (
            {"filter_option": graph_opt.CounterFilter(3)},
            {"admission": {"kind": "counter", "filter_freq": 3}},
        ),
        (
            {"filter_option": graph_opt.CBFFilter(3)},
            {"admission": {"kind": "counter", "filter_freq": 3}},
        ),
        (
            {"filter_option": graph_opt.CBFFilter(3, 2**30, 0.01)},
            {
                "admission": {
                    "kind": "bloom",
                    "filter_freq": 3,
                    "expected_keys": 2**30,
                    "false_positive_probability": 0.01,
                }
            },
        ),
        (
            {"evict_option": graph_opt.GlobalStepEvict(4000)},
            {"eviction": {"kind": "steps_to_live", "steps_to_live": 4000}},
        ),
        (
            {"evict_option": graph_opt.L2WeightEvict(1.0)},
            {"eviction": {"kind": "l2", "l2_threshold": 1.0}},
        ),
        ({"evict_option": graph_opt.L2WeightEvict(-2.0)}, {}),
        (
            {"evict_option": graph_opt.CapacityEvict(1000, CacheStrategy.LFU)},
            {"eviction": {"kind": "lfu"}, "capacity": 1000},
        ),
        (
            {"init_option": graph_opt.InitializerOption(default_value_no_permission=0.5)},
            {"no_permission": 0.5},
        ),
    ],
)
def test_options_make_a_table(options: Any, made: Any) -> None:
    common = {"dim": 16, "initial": {"kind": "bank"}, "counts_lookups": False}
    assert made_of(**options) == {**common, **made}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"ht_type": "dense"}, "ht_type has no effect"),
        ({"ht_partition_num": 10}, "ht_partition_num has no effect"),
        ({"ckpt": graph_opt.CheckpointOption("model")}, "ckpt has no effect"),
        (
            {"storage_option": graph_opt.StorageOption(cache_strategy=CacheStrategy.LRU)},
            "cache_strategy of StorageOption has no effect",
        ),
        (
            {"storage_option": graph_opt.StorageOption(StorageType.PMEM_MEMKIND)},
            "storage type PMEM_MEMKIND keeps rows in memory here",
        ),
        (
            {"storage_option": graph_opt.StorageOption(StorageType.DRAM_PMEM)},
            "storage type DRAM_PMEM without storage_path keeps rows in memory here",
        ),
        (
            {"storage_option": graph_opt.StorageOption(StorageType.HBM_DRAM)},
            "storage type HBM_DRAM keeps rows on a GPU in DeepRec; here they are in memory",
        ),
        ({"storage_option": graph_opt.StorageOption(StorageType.DRAM)}, ""),
    ],
)
def test_what_does_nothing_is_said(options: Any, words: str) -> None:
    forget_warnings()
    assert "tiers" not in made_of(**options)
    told = ("EmbeddingVariable 'table': " + words,) if words else ()
    assert warnings_given() == told


def test_rows_beyond_memory_are_in_a_file(tmp_path: Path) -> None:
    storage = graph_opt.StorageOption(
        StorageType.DRAM_SSDHASH, str(tmp_path / "new"), [1 << 20, 1 << 25]
    )
    tiers = made_of(storage_option=storage)["tiers"]
    assert tiers == {
        "memory_bytes": 1 << 20,
        "path": str(tmp_path / "new"),
        "file_bytes": 1 << 25,
    }
    assert (tmp_path / "new").is_dir()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: graph_opt.StorageOption(**BAD_SIZE), "need a list of bytes"),
        (lambda: graph_opt.StorageOption(storage_path="x"), "storage_path needs a storage_type"),
        (lambda: graph_opt.StorageOption(StorageType.LEVELDB), "LEVELDB needs a storage_path"),
        (lambda: graph_opt.CBFFilter(3, 10), "max_element_size needs"),
        (lambda: graph_opt.CBFFilter(3, 0, 0.01), "both need to be above 0"),
        (lambda: graph_opt.CapacityEvict(0), "need 1 or more"),
        (lambda: graph_opt.CapacityEvict(10, 2), "2 is not a valid CacheStrategy"),
        (lambda: graph_opt.InitializerOption(default_value_dim=0), "need 1 or more"),
        (lambda: made_of(filter_option=3), "filter_option is a int; need a CounterFilter"),
        (lambda: made_of(evict_option="x"), "evict_option is a str; need a GlobalStepEvict"),
    ],
)
def test_options_that_cannot_be(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_enums_are_those_of_protocol_buffers() -> None:
    assert config_pb2.StorageType.Name(12) == "DRAM_SSDHASH"
    assert config_pb2.StorageType.Value("HBM") == 6
    assert ("LFU", 1) in config_pb2.CacheStrategy.items()
    with pytest.raises(ValueError, match="no value defined for name 'NVME'"):
        config_pb2.StorageType.Value("NVME")


def test_rows_are_evicted_by_one_rule_only() -> None:
    option = graph_opt.EmbeddingVariableOption(evict_option=graph_opt.L2WeightEvict(1.0))
    with pytest.raises(ValueError, match="not by both"):
        table_options("table", option, 4096, steps_to_live=10)


def test_a_list_of_sizes_is_left_as_it_is() -> None:
    sizes = [1 << 20]
    assert graph_opt.StorageOption(storage_size=sizes).storage_size[1:] == [1 << 30] * 3
    assert sizes == [1 << 20]
    assert graph_opt.StorageOption().storage_size[0] == 1 << 30
