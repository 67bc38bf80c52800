"""Small data for the scripts of `scripts/`, which `tools.bench.deeprec.scripts` puts together."""

from __future__ import annotations

from pathlib import Path
from typing import Any, List

import numpy as np

# The last batches are smaller.
ROWS = {"train": 150, "eval": 120}
_COLUMNS = {
    "criteo": ["clicked", "I1", "I2", "I3", "I4", "C1", "C2", "C3", "C4", "C5", "C6"],
    "taobao": [
        *("clicked", "buy", "user_id", "cms_segid", "age_level", "adgroup_id", "cate_id", "pid"),
        *("tag_category_list", "tag_brand_list", "price"),
    ],
}


def write_data(folder: Path) -> None:
    """Writes `criteo/`, `taobao/` and `amazon/`, each with train.csv and eval.csv."""
    random = np.random.RandomState(0)
    for name, rows in ROWS.items():
        for data_set, fields in (("criteo", _criteo), ("taobao", _taobao)):
            (folder / data_set).mkdir(exist_ok=True)
            lines = [",".join(fields(random)) for _ in range(rows)]
            (folder / data_set / (name + ".csv")).write_text("\n".join(lines) + "\n", "utf-8")
    _write_amazon(folder / "amazon")


def write_parquet(folder: Path) -> None:
    """Writes the same as `write_data`, and each file as train.parquet and eval.parquet, too."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    def type_of(name: str) -> Any:
        if name in ("clicked", "buy"):
            return pa.int32()
        return pa.float32() if name == "price" or name.startswith("I") else pa.string()

    write_data(folder)
    for file in [*folder.glob("criteo/*.csv"), *folder.glob("taobao/*.csv")]:
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


def _write_amazon(folder: Path) -> None:
    """Writes lines of a user, an item and a history, beside histories that did not happen."""
    folder.mkdir(exist_ok=True)
    random = np.random.RandomState(1)
    vocabularies = {"uid": 50, "mid": 400, "cat": 40}
    for name, size in vocabularies.items():
        lines = ["{}{}".format(name, number) for number in range(size)]
        (folder / (name + "_voc.txt")).write_text("\n".join(lines) + "\n", "utf-8")

    def words(name: str, numbers: Any) -> str:
        return "\x02".join("{}{}".format(name, one % vocabularies[name]) for one in numbers)

    for name, rows in ROWS.items():
        lines, unclicked = [], []
        for _ in range(rows):
            *_, item, label = _ids_and_label(random)
            happened, others = (random.zipf(1.4, (2, random.randint(2, 6))) % 1000).tolist()
            fields = [str(label), words("uid", [item * 3]), words("mid", [item])]
            fields += [words("cat", [item]), words("mid", happened), words("cat", happened)]
            lines.append("\t".join(fields))
            unclicked.append(words("mid", others) + "\t" + words("cat", others))
        (folder / (name + ".csv")).write_text("\n".join(lines) + "\n", "utf-8")
        (folder / (name + ".csv_neg")).write_text("\n".join(unclicked) + "\n", "utf-8")
