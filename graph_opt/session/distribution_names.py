"""What scripts are told that ask `pkg_resources` which TensorFlow is installed.

Scripts of DeepRec's model zoo stop unless `--tf` is given or 'deeprec' is in

    pkg_resources.get_distribution("Tensorflow").version

While DeepRec's names are there, it is; the rest of the version is TensorFlow's. Only this spelling
of the name is answered: libraries that check their dependencies ask for `tensorflow`. Newer
releases of setuptools have no `pkg_resources`; then it has nothing but this answer.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, Callable, NamedTuple, Optional

from graph_opt.compat.imported_attributes import ImportedAttribute
from graph_opt.compat.version_names import release_numbers

_MODULE = "pkg_resources"
_ASKED = "Tensorflow"
_SUFFIX = "+deeprec"
_MISSING = (
    "graph_opt: pkg_resources is not installed, and stands here for TensorFlow's version alone: "
    "pip install 'setuptools<81' to ask for {!r}"
)


class Distribution(NamedTuple):
    """As much of `pkg_resources.Distribution` as tells a version."""

    project_name: str
    key: str
    version: str


def _get_distribution(own: Optional[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    def get_distribution(dist: Any) -> Any:
        if dist == _ASKED:
            release = ".".join(map(str, release_numbers()))
            return Distribution(_ASKED, _ASKED.lower(), release + _SUFFIX)
        if own is None:
            raise ModuleNotFoundError(_MISSING.format(dist), name=_MODULE)
        return own(dist)

    return get_distribution


class _StandIn(ModuleType):
    def __getattr__(self, name: str) -> Any:
        raise AttributeError(_MISSING.format(name))


distribution_names = ImportedAttribute(_MODULE, "get_distribution", _get_distribution, _StandIn)
