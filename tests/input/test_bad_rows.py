"""A row that cannot be parsed is told with its file and line."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, List

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from tests.quick_cases import one_of_each

GOOD = "1,2.5,x"
DEFAULTS: List[Any] = [np.zeros([0], np.int32), [0.0], [""]]


def parsed(lines: Any, **how: Any) -> Any:
    return lines.map(lambda line: tf.io.decode_csv(line, list(DEFAULTS), **how))


def read(files: List[Path]) -> Any:
    """Lines of files in batches of 4, shuffled."""
    names = [str(file) for file in files]
    return tf.data.TextLineDataset(names).shuffle(100, seed=1).batch(4)


def of_dataset(files: List[Path]) -> Any:
    return parsed(read(files))


def of_csv_dataset(files: List[Path]) -> Any:
    names = [str(file) for file in files]
    return tf.data.experimental.CsvDataset(names, [tf.int32, [0.0], [""]])


def of_work_queue(files: List[Path]) -> Any:
    queue = graph_opt.WorkQueue([str(file) for file in files], shuffle=False)
    return parsed(tf.data.TextLineDataset(queue.input_dataset()).batch(4))


def told(dataset: Any, capfd: Any) -> str:
    """What a session says of the first error of its steps."""
    iterator = tf.data.make_initializable_iterator(dataset)
    fields = iterator.get_next()
    scaffold = tf.train.Scaffold(local_init_op=iterator.initializer)
    creator = graph_opt.train.ChiefSessionCreator(scaffold)
    with graph_opt.train.MonitoredSession(creator) as session:
        with pytest.raises(tf.errors.InvalidArgumentError, match="ield"):
            for _ in range(20):
                session.run(fields)
    return str(capfd.readouterr().err)


def files_with(folder: Path, row: str) -> List[Path]:
    files = [folder / name for name in ("one.csv", "two.csv")]
    files[0].write_text("\n".join([GOOD] * 7))
    files[1].write_text("\n".join([GOOD] * 4 + [row] + [GOOD] * 3))
    return files


@pytest.mark.parametrize(
    "row, dataset",
    one_of_each(
        ["3,many,x", "3,1.0", "3,1.0,x,y", ",1.0,x", '3,"a,b",x'],
        [of_dataset, of_csv_dataset, of_work_queue],
    ),
)
def test_the_file_and_line_are_told(
    tmp_path: Path, capfd: Any, row: str, dataset: Callable[[List[Path]], Any]
) -> None:
    files = files_with(tmp_path, row)
    said = told(dataset(files), capfd)
    assert "the row that could not be parsed is line 5 of {}\n".format(files[1]) in said


def test_columns_are_those_that_the_script_chose(tmp_path: Path, capfd: Any) -> None:
    files = files_with(tmp_path, "q;3;no;x")
    good = files[0].read_text().replace(",", ";").replace("1;", "q;1;")
    files[0].write_text(good)
    files[1].write_text(good + "\nq;3;no;x\n")
    dataset = parsed(read(files), field_delim=";", select_cols=[1, 2, 3])
    assert "is line 8 of {}\n".format(files[1]) in told(dataset, capfd)


def test_rows_that_are_alike_are_told_together(tmp_path: Path, capfd: Any) -> None:
    file = tmp_path / "one.csv"
    file.write_text("3,no,x\n" + GOOD + "\n3,no,x\n")
    said = told(of_dataset([file]), capfd)
    assert "is line 1 of {0} or line 3 of {0}\n".format(file) in said


def test_a_file_that_another_parser_reads_is_passed_over(tmp_path: Path, capfd: Any) -> None:
    pairs, rows = tmp_path / "pairs.csv", tmp_path / "rows.csv"
    pairs.write_text("1\t2\n" * 5)
    rows.write_text("\n".join([GOOD] * 3 + ["only one"]))
    beside = tf.data.TextLineDataset([str(pairs)]).batch(4)
    beside = beside.map(lambda line: tf.io.decode_csv(line, [[0], [0]], field_delim="\t"))
    both = tf.data.Dataset.zip((of_dataset([rows]), beside))
    assert "is line 4 of {}\n".format(rows) in told(both, capfd)


def test_without_files_nothing_is_said(capfd: Any) -> None:
    lines = tf.data.Dataset.from_tensor_slices([GOOD, "3,no,x"]).batch(2)
    assert "could not be parsed" not in told(parsed(lines), capfd)
