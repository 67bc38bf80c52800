"""`graph-opt check --requests`: whether an export predicts what its model does."""

from __future__ import annotations

import argparse
from typing import Any, Dict, List

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
    print(_text(compared))
    return 0 if all(each.difference <= _WITHIN_ROUNDING for each in compared) else DIFFERENT


def _finite(output: ComparedOutput) -> Dict[str, Any]:
    """As JSON, which has no infinity."""
    is_finite = output.difference < float("inf")
    return {**output._asdict(), "difference": output.difference if is_finite else None}


def _text(compared: List[ComparedOutput]) -> str:
    rows = [
        (each.signature, each.output, each.requests, each.values, _difference(each.difference))
        for each in compared
    ]
    verdict = max(each.difference for each in compared)
    said = "equal to the bit" if not verdict else "{:.1e} of the largest value".format(verdict)
    header = ("signature", "output", "requests", "values", "largest difference")
    first = "{} compared: {}".format(counted(compared[0].requests, "request"), said)
    return "{}\n{}".format(first, table(header, rows))


def _difference(difference: float) -> str:
    return "none" if not difference else "{:.1e}".format(difference)
