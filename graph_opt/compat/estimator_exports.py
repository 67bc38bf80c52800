"""The argument that exports of DeepRec's estimators have besides TensorFlow's.

Estimators are left to be imported by scripts that use them: the import makes TensorFlow's hooks
warn that they are deprecated, which they do not do without it.
"""

from __future__ import annotations

import functools
from typing import Any, Callable

from tensorflow.python.training import monitored_session
from tensorflow.python.training import saver as saver_module

from graph_opt.compat.imported_attributes import ImportedAttribute


def estimator_exports(make_incremental: Callable[[Any], Any]) -> ImportedAttribute:
    """`Estimator.export_saved_model(save_incr_model=)`, once estimators have been imported.

    Args:
      make_incremental: Called with a saver that is to be incremental, once it is built.
    """
    return ImportedAttribute(
        "tensorflow_estimator.python.estimator.estimator",
        "Estimator.export_saved_model",
        functools.partial(_export, make_incremental=make_incremental),
    )


def _export(stock: Any, make_incremental: Callable[[Any], Any]) -> Any:
    @functools.wraps(stock)
    def export_saved_model(
        self: Any, *arguments: Any, save_incr_model: bool = False, **named: Any
    ) -> Any:
        if not save_incr_model:
            return stock(self, *arguments, **named)
        call_model_fn = self._call_model_fn

        def call_and_make(*given: Any, **by_name: Any) -> Any:
            spec = call_model_fn(*given, **by_name)
            saver = spec.scaffold.saver or saver_module.Saver(sharded=True)
            make_incremental(saver)
            scaffold = monitored_session.Scaffold(saver=saver, copy_from_scaffold=spec.scaffold)
            return spec._replace(scaffold=scaffold)

        self._call_model_fn = call_and_make
        try:
            return stock(self, *arguments, **named)
        finally:
            del self._call_model_fn

    return export_saved_model
