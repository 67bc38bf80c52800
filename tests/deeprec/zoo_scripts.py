"""Whole training scripts as DeepRec's model zoo writes them, and data for them.

Scripts of the zoo are single files that repeat each other but for the model. Here, what they have
in common is kept once, and `write_script` puts a script together.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List

import numpy as np

PARTS = Path(__file__).with_name("scripts")
DATA_SETS: Dict[str, str] = {
    "dlrm": "criteo",
    "wdl": "criteo",
    "deepfm": "criteo",
    "din": "taobao",
    "dssm": "taobao",
    "mmoe": "taobao",
}
# The last batches are smaller.
ROWS = {"train": 150, "eval": 120}
_COLUMNS = {
    "criteo": ["clicked", "I1", "I2", "I3", "I4", "C1", "C2", "C3", "C4", "C5", "C6"],
    "taobao": [
        *("clicked", "buy", "user_id", "cms_segid", "age_level", "adgroup_id", "cate_id", "pid"),
        *("tag_category_list", "tag_brand_list", "price"),
    ],
}
# What a process without graph_opt cannot import.
_OF_DEEPREC = ("tensorflow.core.framework.embedding", "fused_safe_embedding_lookup_sparse\n")


def write_script(model: str, folder: Path) -> Path:
    """Writes the script of a model into a folder."""
    parts = (DATA_SETS[model], "columns", model, "training", "running")
    text = "\n\n".join((PARTS / (part + ".py")).read_text("utf-8") for part in parts)
    script = folder / (model + ".py")
    script.write_text(text, "utf-8")
    return script


def write_stock_script(model: str, folder: Path) -> Path:
    """Writes the same script for a TensorFlow 2.15 without graph_opt, which needs its flag --tf."""
    script = write_script(model, folder)
    lines = [
        line
        for line in script.read_text("utf-8").splitlines(keepends=True)
        if not (line.startswith("from ") and any(name in line for name in _OF_DEEPREC))
    ]
    version_1 = "import tensorflow.compat.v1 as tf\n\ntf.disable_v2_behavior()\n"
    text = "".join(lines).replace("import tensorflow as tf\n", version_1)
    stock = script.with_name("stock_" + script.name)
    stock.write_text(text, "utf-8")
    return stock


def write_data(folder: Path) -> None:
    """Writes `criteo/` and `taobao/`, each with train.csv and eval.csv."""
    random = np.random.RandomState(0)
    for name, rows in ROWS.items():
        for data_set, fields in (("criteo", _criteo), ("taobao", _taobao)):
            (folder / data_set).mkdir(exist_ok=True)
            lines = [",".join(fields(random)) for _ in range(rows)]
            (folder / data_set / (name + ".csv")).write_text("\n".join(lines) + "\n", "utf-8")


def write_parquet(folder: Path) -> None:
    """Writes the same as `write_data`, and each file as train.parquet and eval.parquet, too."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    def type_of(name: str) -> Any:
        if name in ("clicked", "buy"):
            return pa.int32()
        return pa.float32() if name == "price" or name.startswith("I") else pa.string()

    write_data(folder)
    for file in folder.glob("*/*.csv"):
        names = _COLUMNS[file.parent.name]
        rows = [line.split(",") for line in file.read_text("utf-8").splitlines()]
        arrays = {
            name: pa.array(column).cast(type_of(name)) for name, column in zip(names, zip(*rows))
        }
        pq.write_table(pa.table(arrays), str(file.with_suffix(".parquet")))


def _ids_and_label(random: np.random.RandomState) -> List[int]:
    """Six ids, and a label that the first of them decides nearly always."""
    ids = random.zipf(1.3, 6) % 1000
    noise = int(random.rand() < 0.1)
    return [*map(int, ids), int(ids[0] % 2) ^ noise]


def _criteo(random: np.random.RandomState) -> List[str]:
    *ids, label = _ids_and_label(random)
    numbers = [str(number) for number in random.randint(0, 500, 4)]
    return [str(label), *numbers, *("{:08x}".format(one * 7919 + i) for i, one in enumerate(ids))]


def _taobao(random: np.random.RandomState) -> List[str]:
    *ids, label = _ids_and_label(random)
    tags = [
        "|".join("t{}".format(tag) for tag in random.zipf(1.4, random.randint(1, 6)) % 100)
        for _ in range(2)
    ]
    bought = label * random.randint(0, 2)
    price = "{:.2f}".format(300 * random.rand())
    return [str(label), str(bought), *("v{}".format(one) for one in ids), *tags, price]
