"""`graph-opt check --requests`: whether an export predicts what its model does."""

from __future__ import annotations

import argparse
import math
from typing import Any, Dict, List, Optional

from graph_opt.cli.exit_codes import DIFFERENT
from graph_opt.inspect.graph_files import write_text
from graph_opt.reporting.json_documents import json_document
from graph_opt.reporting.tables import counted, table
from graph_opt.serving.compared_predictions import (
    ComparedOutput,
    compare_predictions,
    requests_in,
)

_WITHIN_ROUNDING = 1e-5


def handle(options: argparse.Namespace) -> int:
    """Compares and prints the largest differences; returns the exit code.

    Raises:
      tf.errors.OpError: The model or the file of requests is wrong.
    """
    folder = options.script[0]
    compared = compare_predictions(folder, requests_in(options.requests, folder))
    if options.json:
        outputs = [_finite(each) for each in compared]
        write_text(json_document("predictions", {"outputs": outputs}), options.json)
    print(predictions_text(compared))
    too_far = _too_far(compared, options.tolerance)
    if too_far:
        print(too_far)
    return DIFFERENT if too_far else 0


def predictions_text(compared: List[ComparedOutput]) -> str:
    """How far predictions are apart: in a line, and for each output."""
    header = ["signature", "output", "requests", "values", "largest difference"]
    rows = [
        [each.signature, each.output, each.requests, each.values, _small(each.difference)]
        for each in compared
    ]
    if compared[0].table_dtype:
        header[-1:] = ["largest difference", "mean difference", "without that of tables"]
        for row, each in zip(rows, compared):
            row[-1:] = [
                _percent(each.difference, each.apart),
                _percent(each.mean, each.mean_apart),
                _small(each.beyond_tables),
            ]
    first = "{} compared: {}".format(counted(compared[0].requests, "request"), _verdict(compared))
    return "{}\n{}".format(first, table(header, rows))


def _too_far(compared: List[ComparedOutput], tolerance: Optional[float]) -> str:
    """Which output is further apart than is allowed; empty if none is."""
    if tolerance is None:
        limit, name = _WITHIN_ROUNDING, "rounding explains"
        differences = [each.beyond_tables for each in compared]
    else:
        limit, name = tolerance, "--tolerance allows"
        differences = [each.difference for each in compared]
    largest = max(differences)
    if largest <= limit:
        return ""
    output = compared[differences.index(largest)]
    return "too far apart: {} of {}, by {:.2g} times the largest value; {} {:g}".format(
        output.output, output.signature, largest, name, limit
    )


def _verdict(compared: List[ComparedOutput]) -> str:
    largest = max(each.difference for each in compared)
    beyond = max(each.beyond_tables for each in compared)
    dtype = compared[0].table_dtype
    if not dtype:
        return _told(largest)
    return (
        "tables of {} change predictions by up to {} of the largest value; with the values of "
        "these tables, TensorFlow's own ops predict the same: {}".format(
            dtype, _share(largest), _told(beyond)
        )
        if beyond <= _WITHIN_ROUNDING
        else "{} of the largest value, of which tables of {} explain all but {}".format(
            _share(largest), dtype, _share(beyond)
        )
    )


def _told(difference: float) -> str:
    return "{:.1e} of the largest value".format(difference) if difference else "equal bit for bit"


def _finite(output: ComparedOutput) -> Dict[str, Any]:
    """As JSON, which has no infinity."""
    return {
        key: None if isinstance(value, float) and math.isinf(value) else value
        for key, value in output._asdict().items()
    }


def _small(difference: float) -> str:
    return "none" if not difference else "{:.1e}".format(difference)


def _share(difference: float) -> str:
    return "{:.2g} %".format(100 * difference)


def _percent(share: float, absolute: float) -> str:
    return "none" if not share else "{} ({:.2g})".format(_share(share), absolute)
