"""`DistEmbeddingStrategy`: expected placements, and what holds for all of them."""

from __future__ import annotations

import itertools
from typing import Any, Dict, List, Optional, Sequence, Tuple

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from graph_opt.compat import tf
from graph_opt.distributed_embeddings.column_placement import STRATEGIES, slice_widths
from graph_opt.distributed_embeddings.embedding import Embedding
from graph_opt.distributed_embeddings.strategy import DistEmbeddingStrategy
from tests.example_share import example_share

Shape = Tuple[int, int]


class Rows(Embedding):
    """`Embedding`, without the time that Keras takes to make a layer."""

    def __init__(self, shape: Shape, combiner: Optional[str] = "sum") -> None:
        self._shape, self._combiner = shape, combiner

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def get_config(self) -> Dict[str, Any]:
        return dict(input_dim=self._shape[0], output_dim=self._shape[1], combiner=self._combiner)


def placed(shapes: Sequence[Shape], ranks: int, **arguments: Any) -> DistEmbeddingStrategy:
    return DistEmbeddingStrategy([Rows(shape) for shape in shapes], ranks, **arguments)


SIZES = [(10, 8), (40, 8), (20, 8), (30, 8), (50, 8)]


@pytest.mark.parametrize(
    "strategy, expected",
    [
        ("basic", [[0, 2, 4], [1, 3]]),
        ("memory_balanced", [[4, 0, 2], [1, 3]]),
        ("memory_optimized", [[4, 2], [1, 3, 0]]),
    ],
)
def test_tables_of_each_strategy(strategy: str, expected: List[List[int]]) -> None:
    assert placed(SIZES, 2, strategy=strategy).table_ids == expected


def test_expected_placements_of_four_ranks() -> None:
    def tables(strategy: str) -> List[List[int]]:
        return placed(SIZES, 4, strategy=strategy).table_ids

    assert tables("basic") == [[0, 4], [1], [2], [3]]
    assert tables("memory_balanced") == [[4], [1], [3], [2, 0]]
    assert tables("memory_optimized") == [[4], [1], [3], [2, 0]]


def test_fewer_tables_than_ranks_are_cut_into_slices_of_columns() -> None:
    strategy = placed([(100, 8), (10, 8)], 4)
    assert strategy.table_ids == [[0, 1], [0], [0], [0]]
    assert [one[0]["output_dim"] for one in strategy.local_configs] == [2, 2, 2, 2]
    assert strategy.sliced_out_ranges == [[0, 4]]
    assert strategy.widths_list_flat == [2, 8, 2, 2, 2]
    assert strategy.rev_tp_ids == [0, 2, 3, 4, 1]


def test_slices_that_meet_on_a_rank_are_one() -> None:
    strategy = placed([(100, 6)], 2, column_slice_threshold=100, input_table_map=[0, 0])
    assert strategy.table_ids == [[0], [0]]
    strategy = placed([(100, 6), (100, 6), (1, 6)], 2, column_slice_threshold=300)
    assert strategy.table_ids == [[0, 1, 2], [0, 1]]
    balanced = placed(
        [(100, 8), (70, 2)], 2, strategy="memory_balanced", column_slice_threshold=500
    )
    assert balanced.table_ids == [[0], [0, 1]]


def test_tables_of_equal_width_and_combiner_become_one() -> None:
    layers = [Rows((10, 4)), Rows((20, 8)), Rows((30, 4)), Rows((5, 4), "mean"), Rows((7, 4))]
    strategy = DistEmbeddingStrategy(layers, 1, input_table_map=[4, 0, 1, 2, 3, 0])
    assert strategy.local_group_list == [[[0, 2, 4], [1], [3]]]
    assert strategy.local_weight_offsets == [[[0, 10, 40, 47], [0, 20], [0, 5]]]
    assert strategy.input_ids_list == [[1, 5, 2, 3, 4, 0]]
    assert strategy.local_maps == [[0, 0, 1, 0, 2, 0]]
    assert strategy.local_input_offsets == [[0, 0, 0, 10, 0, 40]]
    assert [one["input_dim"] for one in strategy.local_configs[0]] == [47, 20, 5]


def test_thresholds_make_three_groups() -> None:
    strategy = placed(
        SIZES,
        2,
        data_parallel_threshold=160,
        row_slice_threshold=320,
        input_table_map=[4, 3, 2, 1, 0, 3],
    )
    assert strategy.table_groups == [[0, 2], [3], [1, 4]]
    assert strategy.input_groups == [[2, 4], [1, 5], [0, 3]]
    assert strategy.map_groups == [[1, 0], [0, 0], [1, 0]]
    assert strategy.rev_group_ids == [4, 2, 0, 5, 1, 3]
    assert [config["input_dim"] for config in strategy.dp_configs] == [10, 20]
    assert strategy.row_inputs_offsets == [[0, 0], [20, 25]]
    assert [config["input_dim"] for config in strategy.row_sliced_configs[1]] == [20, 25]


def test_one_rank_has_all_tables() -> None:
    strategy = placed(
        SIZES, 1, strategy="memory_optimized", data_parallel_threshold=99, row_slice_threshold=100
    )
    assert strategy.strategy == "basic"
    assert strategy.table_groups == [[], [0, 1, 2, 3, 4], []]


def test_tables_beyond_the_gpu_stay_alone() -> None:
    strategy = placed(SIZES, 1, gpu_embedding_size=400)
    assert [config["cpu_offload"] for config in strategy.local_configs[0]] == [
        False,
        True,
        True,
        True,
    ]
    assert strategy.local_group_list == [[[0, 2], [1], [3], [4]]]


def test_stock_embeddings_are_ours_and_others_stay_themselves() -> None:
    class Custom(tf.keras.layers.Layer):
        def get_config(self) -> Dict[str, Any]:
            return dict(input_dim=5, output_dim=4, combiner=None)

    layers = [tf.keras.layers.Embedding(10, 4), Custom(), Custom(), Embedding(8, 4)]
    strategy = DistEmbeddingStrategy(layers, 1)
    assert strategy.local_group_list == [[[0, 3], [1], [2]]]
    assert [one["layer_type"] for one in strategy.local_configs[0]] == [Embedding, Custom, Custom]


@pytest.mark.parametrize(
    "message, ranks, arguments",
    [
        ("choose one of basic, memory_balanced", 2, dict(strategy="fastest")),
        ("names table 7, but there are 5", 2, dict(input_table_map=[0, 7])),
        (
            "Not enough tables after slicing: 5 slices of 5 tables",
            6,
            dict(column_slice_threshold=400),
        ),
    ],
)
def test_what_cannot_be_placed(message: str, ranks: int, arguments: Dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=message):
        placed(SIZES, ranks, **arguments)


TABLES = st.lists(st.tuples(st.integers(1, 200), st.integers(1, 9)), min_size=1, max_size=9)
THRESHOLDS = st.one_of(st.none(), st.integers(1, 900))


@example_share(1.5)
@given(
    shapes=TABLES,
    ranks=st.integers(1, 16),
    strategy=st.sampled_from(STRATEGIES),
    columns=THRESHOLDS,
    rows=THRESHOLDS,
    replicated=THRESHOLDS,
    data=st.data(),
)
def test_every_element_is_in_one_place(
    shapes: List[Shape],
    ranks: int,
    strategy: str,
    columns: Optional[int],
    rows: Optional[int],
    replicated: Optional[int],
    data: Any,
) -> None:
    input_map = data.draw(st.lists(st.integers(0, len(shapes) - 1), max_size=12))
    try:
        plan = placed(
            shapes,
            ranks,
            strategy=strategy,
            column_slice_threshold=columns,
            row_slice_threshold=rows,
            data_parallel_threshold=replicated,
            input_table_map=input_map,
        )
    except ValueError as error:
        assert "Not enough tables" in str(error)
        assume(False)
    assert sorted(itertools.chain(*plan.table_groups)) == list(range(len(shapes)))
    order = list(itertools.chain(*plan.input_groups))
    assert [order[place] for place in plan.rev_group_ids] == list(range(len(input_map)))
    _check_columns(plan, [shapes[table] for table in plan.table_groups[1]], ranks)
    for place, table in enumerate(plan.table_groups[2]):
        parts = [config[place]["input_dim"] for config in plan.row_sliced_configs]
        firsts = [offsets[place] for offsets in plan.row_inputs_offsets]
        assert sum(parts) == shapes[table][0]
        assert firsts == [sum(parts[:rank]) for rank in range(ranks)]


def _check_columns(plan: DistEmbeddingStrategy, shapes: Sequence[Shape], ranks: int) -> None:
    inputs = plan.map_groups[1]
    if shapes:
        assert all(plan.table_ids)
    for table, shape in enumerate(shapes):
        pieces = [one for rank in plan.column_pieces for one in rank if one.table == table]
        assert [one.first_column for one in pieces] == [
            sum(one.width for one in pieces[:place]) for place in range(len(pieces))
        ]
        assert sum(one.width for one in pieces) == shape[1]
        widths = slice_widths(shape, plan.column_slice_threshold, ranks)
        assert len(widths) <= ranks and max(widths) - min(widths) <= 1
    for rank in range(ranks):
        offsets = plan.local_weight_offsets[rank]
        for number, members in enumerate(plan.local_group_list[rank]):
            rows = [shapes[plan.table_ids[rank][member]][0] for member in members]
            assert offsets[number] == [sum(rows[:place]) for place in range(len(rows) + 1)]
            assert plan.local_configs[rank][number]["input_dim"] == sum(rows)
        for one, number, offset in zip(
            plan.input_ids_list[rank], plan.local_maps[rank], plan.local_input_offsets[rank]
        ):
            member = plan.local_group_list[rank][number][offsets[number].index(offset)]
            assert plan.table_ids[rank][member] == inputs[one]
    flat = [one for rank in plan.input_ids_list for one in rank]
    outputs: List[Any] = [[flat[place], plan.widths_list_flat[place]] for place in plan.rev_tp_ids]
    for first, end in plan.sliced_out_ranges:
        joined = outputs[first:end]
        assert len({one for one, _ in joined}) == 1
        outputs[first:end] = [[joined[0][0], sum(width for _, width in joined)]]
    assert outputs == [[one, shapes[table][1]] for one, table in enumerate(inputs)]
