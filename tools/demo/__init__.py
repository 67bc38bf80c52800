"""`make demo`: DLRM trained with and without graph_opt, and a report."""
