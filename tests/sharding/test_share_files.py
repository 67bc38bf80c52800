"""Files that a rank writes for another one, which may not see its folders."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Dict, List, Tuple

import pytest

from graph_opt.sharding.rank_shares import RankShare, share_prefix
from graph_opt.sharding.share_files import LentFiles, bring_files
from graph_opt.table_files import row_blocks

SHARES = [RankShare("users", "users", ()), RankShare("items", "", (("items/Adam", "{}/Adam"),))]


def written(share: RankShare, prefix: str) -> None:
    Path(prefix + ".index").write_text(share.table)
    Path(prefix + ".data").write_bytes(bytes(range(256)) * len(share.table))


@pytest.mark.parametrize("is_seen", [True, False])
def test_files_are_where_they_are_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_seen: bool
) -> None:
    monkeypatch.setattr(row_blocks, "_BLOCK_BYTES", 100)
    lent = LentFiles()
    folder = tmp_path / "temp"
    folder.mkdir()
    answered = lent.write(SHARES, 3, str(folder if is_seen else tmp_path / "unseen"), written)
    assert bool(answered) != is_seen and not (tmp_path / "unseen").exists()

    def ask(request: Dict[str, Any]) -> Tuple[Dict[str, Any], List[bytes]]:
        head, arrays = lent.answer(json.loads(json.dumps(request)))
        assert all(len(one) <= 100 for one in arrays)
        return head, [bytes(one) for one in arrays]

    bring_files(json.loads(json.dumps(answered)), str(folder), ask)
    for number, share in enumerate(SHARES):
        prefix = share_prefix(str(folder), 3, number)
        assert Path(prefix + ".index").read_text() == share.table
        assert Path(prefix + ".data").read_bytes() == bytes(range(256)) * len(share.table)
    assert not answered or not os.path.exists(answered["folder"])
