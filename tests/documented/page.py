"""Runs the Python code of one page as it is shown: `python -m tests.documented.page NAME`.

`surroundings` has, for each page, what stands around its code: a generator that puts the names a
block needs before it yields, and checks what the block did after it.
"""

from __future__ import annotations

import re
import sys
import threading
from pathlib import Path
from typing import Any, Dict, List

from graph_opt.compat import tf
from tests.documented import surroundings

REPOSITORY = Path(__file__).resolve().parents[2]
DOCS = REPOSITORY / "docs"
EAGER = {"distributed-embeddings"}  # all other pages build graphs


def blocks_of(page: Path) -> List[str]:
    """The Python code of a page, block by block."""
    return re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), flags=re.DOTALL)


def run(name: str) -> int:
    """Runs all blocks of a page in one namespace; returns how many there are.

    Raises:
      AssertionError: A block is left over, or one that is expected is not there.
    """
    if name not in EAGER:
        tf.disable_v2_behavior()
    page = DOCS / (name + ".md")
    names: Dict[str, Any] = {"tf": tf}
    around = getattr(surroundings, name.replace("-", "_"))(names)
    blocks = blocks_of(page)
    for number, block in enumerate(blocks):
        how = next(around, None)
        assert how is not None, "block {} was not expected".format(number)
        code = compile(block, "{}, block {}".format(page, number), "exec")
        if how == surroundings.FOR_EVER:
            threading.Thread(target=exec, args=(code, names), daemon=True).start()
        else:
            exec(code, names)
    for _ in around:
        raise AssertionError("{} has fewer blocks than expected".format(page))
    return len(blocks)


if __name__ == "__main__":
    print(run(sys.argv[1]), "blocks")
