"""Files of all formats that commands read, and how they are damaged."""

from __future__ import annotations

import gzip
import json
import struct
from pathlib import Path
from typing import Any, Callable, Dict, NamedTuple, Tuple

import google_crc32c
import numpy as np
from google.protobuf import text_format
from hypothesis import strategies as st

from graph_opt.cli.main import main
from graph_opt.compat import tf
from graph_opt.compat.saved_models import SavedModel
from graph_opt.compat.varint import varint
from graph_opt.reporting.step_records import StepRecord, Wait, trace_events
from tests.serving.mapped_models import export, fill, two_tables

ROWS = np.arange(22, dtype=np.float32).reshape(11, 2)
_MASK = 0xA282EAD8
_TABLE = "served/assets/graph_opt_tables/0000-first.table"
_TABLE_PAGE = 4092  # Its checksum follows.
# What numbers in headers are likely to be taken for: sizes, offsets, counts.
_NUMBERS = (0, 1, 127, 128, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**64 - 1)
_WORDS = (
    b"{", b"}", b"<", b'"', b"'", b"#", b"\n", b":", b"[", b"]", b"(", b",", b"-1", b"1e999",
    b"nan",
    b"99999999999999999999", b"\\377", b"\\ud800", b"\xff", b"\0", b"true", b"null", b"{}", b"[[[[",
)  # fmt: skip


class Target(NamedTuple):
    """A file that a command reads.

    Attributes:
      make: Makes it, and what else the command reads, in an empty folder.
      file: Its name.
      command: The command's arguments; `{}` stands for the folder.
      infers_shapes: Whether TensorFlow infers shapes of what the file says.
      opened: What of it is damaged.
      sealed: Makes a file of that, with right checksums.
    """

    make: Callable[[Path], object]
    file: str
    command: Tuple[str, ...]
    infers_shapes: bool = False
    opened: Callable[[bytes], bytes] = bytes
    sealed: Callable[[bytes], bytes] = bytes


@st.composite
def damaged(draw: st.DrawFn, data: bytes) -> bytes:
    """A file with a few changes."""
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(data)))
        length = draw(st.integers(0, 40))
        kind = draw(st.sampled_from(["bit", "cut", "out", "twice", "moved", "number", "word"]))
        if kind == "bit" and place < len(data):
            bit = 1 << draw(st.integers(0, 7))
            data = data[:place] + bytes([data[place] ^ bit]) + data[place + 1 :]
        elif kind == "cut":
            data = data[:place]
        elif kind == "out":
            data = data[:place] + data[place + length :]
        elif kind in ("twice", "moved"):
            begin = place if kind == "twice" else draw(st.integers(0, len(data)))
            data = data[:place] + data[begin : begin + length] + data[place:]
        elif kind == "number":
            new = _number(draw)
            behind = place + (len(new) if draw(st.booleans()) else 0)
            data = data[:place] + new + data[behind:]
        elif kind == "word":
            behind = place + draw(st.integers(0, 4))
            data = data[:place] + draw(st.sampled_from(_WORDS)) + data[behind:]
    return data


def _number(draw: st.DrawFn) -> bytes:
    number = draw(st.sampled_from(_NUMBERS))
    size = draw(st.sampled_from([0, 1, 4, 8]))
    if size:
        return (number % 2 ** (8 * size)).to_bytes(size, "little")
    return varint(number)


def _masked(data: bytes) -> int:
    checksum = google_crc32c.value(data)
    return ((checksum >> 15 | checksum << 17) + _MASK) & 0xFFFFFFFF


def _graph() -> Any:
    with tf.Graph().as_default() as graph:
        parsed = tf.parse_example(
            tf.placeholder(tf.string, [None]), {"user": tf.FixedLenFeature([], tf.int64)}
        )
        table = tf.get_variable("t", ROWS.shape)
        loss = tf.reduce_sum(tf.nn.embedding_lookup(table, parsed["user"]))
        tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        return graph.as_graph_def()


def _meta_graph() -> Any:
    meta = tf.MetaGraphDef(graph_def=_graph())
    meta.meta_info_def.tags.append("serve")
    meta.collection_def["trainable_variables"].node_list.value.append("t:0")
    return meta


def _saved_model() -> bytes:
    model = SavedModel(saved_model_schema_version=1)
    model.meta_graphs.append(_meta_graph())
    return bytes(model.SerializeToString())


def _text(folder: Path) -> None:
    (folder / "f").write_text(text_format.MessageToString(_graph()), "utf-8")


def _large_text(folder: Path) -> None:
    graph_def = _graph()
    for number in range(400):
        node = graph_def.node.add(name="large_{}".format(number), op="Const")
        node.attr["dtype"].type = tf.float32.as_datatype_enum
        node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(np.ones([20], np.float32)))
        node.attr["_class"].list.s.append(b"a class of nodes, {" * 8)
    (folder / "f").write_text(text_format.MessageToString(graph_def), "utf-8")


def _config(folder: Path) -> None:
    (folder / "graph.pb").write_bytes(_graph().SerializeToString())
    (folder / "f").write_text(
        "allow_soft_placement: true gpu_options { visible_device_list: '0' }\n"
        "graph_options { optimizer_options { do_async_embedding: true\n"
        "  async_embedding_options { threads_num: 2 infer_io_stage: true capacity: 2 } }\n"
        '  rewrite_options { custom_optimizers { parameter_map { key: "k" value {\n'
        '    func { name: "f" } } } } } }\n',
        "utf-8",
    )


def _sample(folder: Path) -> None:
    (folder / "graph.pb").write_bytes(_graph().SerializeToString())
    with tf.io.TFRecordWriter(str(folder / "f")) as writer:
        for user in (3, 9, 3):
            example = tf.train.Example()
            example.features.feature["user"].int64_list.value.append(user)
            writer.write(example.SerializeToString())


def _sealed_records(data: bytes) -> bytes:
    sealed, place = b"", 0
    while place + 12 <= len(data):
        length = data[place : place + 8]
        record = data[place + 12 : place + 12 + struct.unpack("<Q", length)[0]]
        sealed += length + struct.pack("<I", _masked(length)) + record
        sealed += struct.pack("<I", _masked(record))
        place += 16 + len(record)
    return sealed


def _timeline(folder: Path) -> None:
    (folder / "graph.pb").write_bytes(_graph().SerializeToString())
    steps = [
        StepRecord("s", "t", 1, 0.1, 0.2, (Wait("w", 0.1, 0.15),)),
        StepRecord("s", "t", 2, 3, 4),
    ]
    (folder / "f").write_text(json.dumps(trace_events(steps)), "utf-8")


def _page(folder: Path) -> None:
    (folder / "graph.pb").write_bytes(_graph().SerializeToString())
    lanes = [dict(stage="s", thread="t", steps=[[0.0, 1.5, 1, [[0.1, 0.2]]], [2.0, 3.5, 2]])]
    content = json.dumps(dict(timeline=dict(lanes=lanes)))
    tag = '<script type="application/json" id="content">{}</script>'
    (folder / "f").write_text(tag.format(content), "utf-8")


def _checkpoint(folder: Path) -> None:
    tensors: Dict[str, Any] = {
        "t": ROWS, "t/Adam": ROWS, "t/Adam_1": ROWS, "beta1_power": np.float32(0.9),
        "d-keys": np.arange(11) * 3, "d-values": ROWS, "d-versions": np.arange(11),
        "text": np.array([b"a", b"bc"]),
    }  # fmt: skip
    with tf.Graph().as_default(), tf.Session() as session:
        names = sorted(tensors)
        save = tf.raw_ops.SaveV2(
            prefix=str(folder / "f"),
            tensor_names=names,
            shape_and_slices=[""] * len(names),
            tensors=[tf.constant(tensors[name]) for name in names],
        )
        session.run(save)


def _entries_of(index: bytes) -> bytes:
    """The block with all entries of a small index."""
    blocks = [
        end for end in range(len(index)) if index[end : end + 1] == b"\0" and _ends(index, end)
    ]
    return index[: blocks[0]]


def _ends(index: bytes, end: int) -> bool:
    return index[end + 1 : end + 5] == struct.pack("<I", _masked(index[: end + 1]))


def _index_of(block: bytes) -> bytes:
    """An index with these entries, and checksums that say that they are right."""
    place = varint(0) + varint(len(block))
    no_entries = struct.pack("<II", 0, 1)
    one_entry = b"\0\1" + bytes([len(place)]) + b"\xff" + place + no_entries
    data, handles = b"", b""
    for content in (block, no_entries, one_entry):
        handles += varint(len(data)) + varint(len(content)) if data else b""
        data += content + b"\0" + struct.pack("<I", _masked(content + b"\0"))
    return data + handles.ljust(40, b"\0") + struct.pack("<Q", 0xDB4775248B80FB57)


def _dump(folder: Path) -> None:
    _checkpoint(folder)
    assert (
        main(["convert", str(folder / "f"), str(folder / "d"), "--to", "sok", "--table", "t"]) == 0
    )


def _arrays(folder: Path) -> None:
    _checkpoint(folder)
    assert (
        main(["convert", str(folder / "f"), str(folder / "n"), "--to", "npy", "--table", "t"]) == 0
    )


def _mapped(folder: Path) -> None:
    export(two_tables, folder, fill(2.0))


def _sealed_table(data: bytes) -> bytes:
    page = data[:_TABLE_PAGE]
    return page + struct.pack("<I", google_crc32c.value(page)) + data[_TABLE_PAGE + 4 :]


def _array(folder: Path) -> None:
    np.save(folder / "f.npy", ROWS)


def _keys(folder: Path) -> None:
    _array(folder)
    np.save(folder / "keys.npy", np.arange(11) * 7)
    (folder / "keys.txt").write_text("".join("{}\n".format(7 * key) for key in range(11)), "utf-8")


def _written(content: Callable[[], bytes]) -> Callable[[Path], object]:
    return lambda folder: (folder / "f").write_bytes(content())


def _bytes_of(make: Callable[[], Any]) -> Callable[[Path], object]:
    return _written(lambda: bytes(make().SerializeToString()))


def _packed() -> bytes:
    return gzip.compress(_graph().SerializeToString(), mtime=0)


INSPECT = ("inspect", "{}/f")
PLAN = ("plan", "{}/graph.pb", "--batch", "2")
REWRITE = ("rewrite", "{}/f", "-o", "{}/out.pb", "--set", "do_group_embedding=true")
TO_NPY = (
    "convert",
    "{}/f",
    "{}/out",
    "--to",
    "npy",
    "--table",
    "t",
    "--table",
    "d",
    "--rows",
    "d=20",
    "--dry-run",
)
TIMELINE = ("inspect", "{}/graph.pb", "--html", "{}/out.html", "--timeline", "{}/f")
FROM_DUMP = ("convert", "{}/d", "{}/out", "--to", "npy", "--dry-run")
FROM_ARRAYS = ("convert", "{}/n", "{}/out", "--to", "sok", "--dry-run")
UPDATE = ("update", "{}/served", "{}/checkpoints/model.ckpt-0")
KEYED = ("convert", "{}/f.npy", "{}/out", "--to", "sok", "--dry-run", "--keys")

TARGETS: Dict[str, Target] = {
    "graph": Target(_bytes_of(_graph), "f", INSPECT, True),
    "planned graph": Target(_bytes_of(_graph), "f", ("plan", "{}/f", "--batch", "2"), True),
    "rewritten graph": Target(_bytes_of(_graph), "f", REWRITE, True),
    "meta graph": Target(_bytes_of(_meta_graph), "f", INSPECT, True),
    "saved model": Target(_written(_saved_model), "f", INSPECT, True),
    "packed graph": Target(_written(_packed), "f", INSPECT, True),
    "text": Target(_text, "f", INSPECT, True),
    "large text": Target(_large_text, "f", INSPECT),
    "config": Target(_config, "f", ("inspect", "{}/graph.pb", "--config", "{}/f")),
    "sample": Target(_sample, "f", (*PLAN, "--sample", "{}/f"), False, bytes, _sealed_records),
    "timeline": Target(_timeline, "f", TIMELINE),
    "page": Target(_page, "f", TIMELINE),
    "index": Target(_checkpoint, "f.index", TO_NPY),
    "forged index": Target(_checkpoint, "f.index", TO_NPY, False, _entries_of, _index_of),
    "tensors": Target(_checkpoint, "f.data-00000-of-00001", TO_NPY),
    "keys of a dump": Target(_dump, "d/t_0-key", FROM_DUMP),
    "rows of a dump": Target(_dump, "d/t_0-Adam-m", FROM_DUMP),
    "facts of a dump": Target(_dump, "d/t_0-graph_opt.json", FROM_DUMP),
    "table": Target(_mapped, _TABLE, UPDATE),
    "forged table": Target(_mapped, _TABLE, UPDATE, False, bytes, _sealed_table),
    "list of tables": Target(_mapped, "served/assets/graph_opt_tables.txt", UPDATE),
    "array": Target(_array, "f.npy", ("convert", "{}/f.npy", "{}/out", "--to", "sok", "--dry-run")),
    "facts of arrays": Target(_arrays, "n/graph_opt.json", FROM_ARRAYS),
    "array of keys": Target(_keys, "keys.npy", (*KEYED, "{}/keys.npy")),
    "text of keys": Target(_keys, "keys.txt", (*KEYED, "{}/keys.txt")),
}
