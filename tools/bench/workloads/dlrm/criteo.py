"""Criteo's click logs as a stream of batches, read by tf.data.

Two layouts are read, recognised by their first line:

- tab-separated without header, as Criteo ships its files: `label I1..I13 C1..C26`;
- comma-separated with a header that names these columns, with or without an Id column before them.

Empty fields are normal: a missing counter is 0, a missing category is "" (which the feature
columns drop, so that its pooled embedding is zero). Everything else that is not a row is an error
that names file and line.

The stream, from file to batch:

    lines of a file ─ blocks of B ─ number, check, hold out ─ rebatch to B ─ decode ─ prefetch
                                                              (parallel, in order)

Work is done on blocks of lines, never on single lines: per-line tf.data stages would cost three
times as much as reading the file.
"""

from __future__ import annotations

import glob
from pathlib import Path
from typing import Dict, List, NamedTuple, Sequence, Tuple

import tensorflow.compat.v1 as tf

from tools.bench.workloads.dlrm.schema import CATEGORICALS, COLUMNS, ID, INTEGER_COUNT
from tools.bench.workloads.input_pipeline import ALL, Part, decoded_ahead

Batch = Tuple[Dict[str, tf.Tensor], tf.Tensor]

READ_BUFFER_BYTES = 1 << 20
COUNTERS = "counters"
_SHOWN_CHARACTERS = 80


class Layout(NamedTuple):
    """How the rows of a file are written: separator, header line or not, Id column or not."""

    separator: str
    has_header: bool
    has_id: bool


class Selection(NamedTuple):
    """Which rows of the files are taken.

    Every `every`-th line (lines are counted per file, the header is line 1) is held out;
    0 holds out none. `is_held_out` asks for these rows in place of all the others.
    """

    every: int = 0
    is_held_out: bool = False


EVERY_ROW = Selection()


def find_files(patterns: Sequence[str]) -> List[str]:
    """Paths that the glob patterns match, sorted within each pattern.

    Raises:
      FileNotFoundError: a pattern matches no file.
    """
    paths: List[str] = []
    for pattern in patterns:
        matches = sorted(path for path in glob.glob(pattern) if Path(path).is_file())
        if not matches:
            raise FileNotFoundError(f"no file matches '{pattern}'")
        paths.extend(matches)
    return paths


def layout_of(paths: Sequence[str]) -> Layout:
    """The one layout of all files.

    Raises:
      ValueError: the first line of a file is no Criteo row or header, or two files differ.
    """
    layouts = [_layout_of_file(path) for path in paths]
    for path, layout in zip(paths, layouts):
        if layout != layouts[0]:
            raise ValueError(
                f"{path} and {paths[0]} have different layouts ({layout} and {layouts[0]}): "
                f"read them in separate runs, or convert one of them"
            )
    return layouts[0]


def batches(
    paths: Sequence[str],
    batch_size: int,
    epochs: int = 1,
    selection: Selection = EVERY_ROW,
    shuffle_rows: int = 0,
    seed: int = 0,
    part: Part = ALL,
) -> tf.data.Dataset:
    """Batches of rows, in the order of the files and their lines.

    Args:
      paths: files of one layout.
      batch_size: rows of a batch; the last one may have fewer.
      epochs: how many times the rows are read; -1: forever.
      selection: which lines are taken.
      shuffle_rows: rows that are shuffled among each other; 0 keeps the order.
      seed: of the shuffling.
      part: which of the batches.

    Returns:
      A dataset of (features, label [B, 1] float32). Features: "counters" [B, 13] float32,
      log(1 + value), and "C1" to "C26" [B, 1] string.

    Raises:
      tf.errors.InvalidArgumentError: when the batch is taken and a line is no row, with file
        and line.

    Example:
      >>> dataset = batches(find_files(["day_*.tsv"]), batch_size=512)
      >>> features, label = tf.data.make_one_shot_iterator(dataset).get_next()
    """
    layout = layout_of(paths)
    lines = tf.data.Dataset.from_tensor_slices(list(paths)).flat_map(
        lambda path: _checked_blocks(path, batch_size, layout, selection)
    )
    if epochs != 1:
        lines = lines.repeat(epochs)
    if shuffle_rows:
        lines = lines.unbatch().shuffle(shuffle_rows, seed=seed).batch(batch_size)
    elif hasattr(lines, "rebatch"):
        lines = lines.rebatch(batch_size)
    else:  # TensorFlow 1
        lines = lines.unbatch().batch(batch_size)
    return decoded_ahead(lines, lambda block: decode(block, layout), part)


def decode(lines: tf.Tensor, layout: Layout) -> Batch:
    """Features and label of a block of lines [B]; see `batches` for the shapes."""
    skipped = 1 if layout.has_id else 0
    numbers = [0.0] * (1 + INTEGER_COUNT)
    texts = [""] * len(CATEGORICALS)
    fields = tf.io.decode_csv(
        lines,
        record_defaults=[[default] for default in numbers + texts],
        field_delim=layout.separator,
        use_quote_delim=False,
        select_cols=list(range(skipped, skipped + len(COLUMNS))),
    )
    counters = tf.stack(fields[1 : 1 + INTEGER_COUNT], axis=1)
    # A few counters of the real files are negative (-1 to -3): they count as 0.
    features = {COUNTERS: tf.log1p(tf.maximum(counters, 0.0))}
    for name, values in zip(CATEGORICALS, fields[1 + INTEGER_COUNT :]):
        features[name] = values[:, tf.newaxis]
    return features, fields[0][:, tf.newaxis]


def _layout_of_file(path: str) -> Layout:
    with open(path, "rb") as file:
        line = file.readline().decode(errors="replace").rstrip("\r\n")
    separator = "\t" if "\t" in line else ","
    names = tuple(name.strip().lower() for name in line.split(separator))
    columns = tuple(name.lower() for name in COLUMNS)
    if names in (columns, (ID,) + columns):
        return Layout(separator, has_header=True, has_id=names[0] == ID)
    if len(names) == len(columns) and names[0] in ("0", "1"):
        return Layout(separator, has_header=False, has_id=False)
    raise ValueError(
        f"{path}, line 1: neither a header (Id,Label,I1..I13,C1..C26; Id may be missing) nor a row "
        f"of {len(COLUMNS)} fields (label, I1..I13, C1..C26): '{line[:_SHOWN_CHARACTERS]}'"
    )


def _checked_blocks(
    path: tf.Tensor, batch_size: int, layout: Layout, selection: Selection
) -> tf.data.Dataset:
    first_line = 2 if layout.has_header else 1
    lines = tf.data.TextLineDataset(path, buffer_size=READ_BUFFER_BYTES).skip(first_line - 1)

    def checked(block: tf.Tensor, lines_of_block: tf.Tensor) -> tf.Tensor:
        count = tf.shape(lines_of_block, out_type=tf.int64)[0]
        numbers = block * batch_size + first_line + tf.range(count)
        chosen = _chosen(lines_of_block, numbers, selection)
        with tf.control_dependencies([_assert_rows(lines_of_block, path, numbers, layout)]):
            return tf.identity(chosen)

    return lines.batch(batch_size).enumerate().map(checked)


def _chosen(lines: tf.Tensor, numbers: tf.Tensor, selection: Selection) -> tf.Tensor:
    if not selection.every:
        return lines
    is_held_out = tf.equal(numbers % selection.every, 0)
    return tf.boolean_mask(lines, is_held_out if selection.is_held_out else ~is_held_out)


def _assert_rows(
    lines: tf.Tensor, path: tf.Tensor, numbers: tf.Tensor, layout: Layout
) -> tf.Operation:
    is_row = tf.strings.regex_full_match(lines, _row_pattern(layout))
    first_bad = tf.argmin(tf.cast(is_row, tf.int32))
    separator = "tabs" if layout.separator == "\t" else "commas"
    message = tf.strings.join(
        [
            path,
            ", line ",
            tf.strings.as_string(numbers[first_bad]),
            f": need {'an id, ' if layout.has_id else ''}a label 0 or 1, 13 numbers and 26 "
            f"categories (any may be empty) between {separator}, saw '",
            tf.strings.substr(lines[first_bad], 0, _SHOWN_CHARACTERS),
            "'",
        ]
    )
    return tf.Assert(tf.reduce_all(is_row), [message])


def _row_pattern(layout: Layout) -> str:
    separator = layout.separator
    identifier = f"[^{separator}]*{separator}" if layout.has_id else ""
    number = f"{separator}-?[0-9]*(?:[.][0-9]+)?"
    category = f"{separator}[^{separator}]*"
    return f"{identifier}[01](?:{number}){{13}}(?:{category}){{26}}"
