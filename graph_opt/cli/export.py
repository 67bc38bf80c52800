"""`graph-opt export`: writes a SavedModel whose lookups are fused."""

from __future__ import annotations

import argparse

from graph_opt.cli.check_served import predictions_text
from graph_opt.cli.config_arguments import checked_config
from graph_opt.cli.graph_input import tags_of
from graph_opt.cli.messages import warn
from graph_opt.cli.progress import Progress
from graph_opt.serving.compared_predictions import compare_predictions, requests_in
from graph_opt.serving.fused_export import (
    COPYING,
    FUSING,
    WRITING,
    export_fused,
    ineffective_options,
)

_HOW_TO_MEASURE = (
    "how much that changes predictions: graph-opt check --requests FILE {}, with requests of yours"
)
_PARTS = {COPYING: 0.3, FUSING: 0.6, WRITING: 0.1}


def handle(options: argparse.Namespace) -> int:
    """Writes it and says what was done; returns the exit code.

    Raises:
      tf.errors.FailedPreconditionError: No lookup could be fused.
      tf.errors.OpError: The model, an option or an argument is wrong.
    """
    config = checked_config(options).given
    ignored = ineffective_options(config)
    if ignored:
        warn("", "export only fuses, so this has no effect: " + ", ".join(ignored))
    tags = tags_of(options)
    feeds, fetches = dict(options.feeds), dict(options.fetches)
    # A file that cannot be read is told before minutes of work; one of examples needs the export.
    is_early = options.requests is not None and options.requests.endswith(".npz")
    requests = requests_in(options.requests, options.input) if is_early else []
    with Progress(options.input, _PARTS) as progress:
        exported = export_fused(
            options.input,
            options.output,
            tags,
            feeds,
            fetches,
            config,
            options.repeated,
            options.map_tables,
            options.table_dtype,
            progress.begins,
        )
    print(exported)
    if options.requests is not None:
        requests = requests or requests_in(options.requests, options.output)
        print(predictions_text(compare_predictions(options.output, requests)))
    elif options.table_dtype:
        print(_HOW_TO_MEASURE.format(options.output))
    for warning in exported.report.warnings:
        warn("", warning)
    return 0
