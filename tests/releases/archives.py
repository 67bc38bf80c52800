"""Graphs as each release of TensorFlow writes them, a file `graphs/RELEASE.tar.xz` each.

An archive has a GraphDef `NAME.pb` for each graph, and `expected.json`: what a search must find in
each. Graphs of one release have so much in common that one archive of all is much the smallest.
"""

from __future__ import annotations

import functools
import io
import json
import lzma
import tarfile
from pathlib import Path
from typing import Any, Dict, List, Mapping, Tuple

from tests.rules.lookup_models import Expected

FOLDER = Path(__file__).resolve().parent / "graphs"
_ENDING = ".tar.xz"
_EXPECTED = "expected.json"
_SMALLEST = 9 | lzma.PRESET_EXTREME


def releases() -> List[str]:
    """The releases of TensorFlow that have an archive, oldest first."""
    found = [path.name[: -len(_ENDING)] for path in FOLDER.glob("*" + _ENDING)]
    return sorted(found, key=lambda release: [int(part) for part in release.split(".")])


def names(release: str) -> List[str]:
    """Names of a release's graphs."""
    return sorted(_expected(release))


def expected(release: str, name: str) -> List[Expected]:
    """The lookups in one graph."""
    facts = _expected(release)[name]
    return [Expected(**{**fact, "tables": tuple(fact["tables"])}) for fact in facts]


def graph_bytes(release: str, name: str) -> bytes:
    """One GraphDef, as it is in a file."""
    return _members(release)[name + ".pb"]


def write_archive(release: str, graphs: Mapping[str, Tuple[bytes, Any]]) -> None:
    """Writes GraphDefs and what is expected of them; the same graphs make the same bytes."""
    members = {name + ".pb": graph for name, (graph, _) in graphs.items()}
    facts = {name: expectation for name, (_, expectation) in graphs.items()}
    members[_EXPECTED] = json.dumps(facts, indent=1, sort_keys=True).encode()
    FOLDER.mkdir(exist_ok=True)
    with lzma.open(str(FOLDER / (release + _ENDING)), "wb", preset=_SMALLEST) as packed:
        with tarfile.open(fileobj=packed, mode="w") as archive:
            for name in sorted(members):
                member = tarfile.TarInfo(name)
                member.size = len(members[name])
                archive.addfile(member, io.BytesIO(members[name]))


@functools.lru_cache(maxsize=None)
def _members(release: str) -> Dict[str, bytes]:
    found = {}
    with tarfile.open(str(FOLDER / (release + _ENDING))) as archive:
        for member in archive:
            content = archive.extractfile(member)
            assert content is not None
            found[member.name] = content.read()
    return found


@functools.lru_cache(maxsize=None)
def _expected(release: str) -> Dict[str, List[Dict[str, Any]]]:
    return json.loads(_members(release)[_EXPECTED].decode())
