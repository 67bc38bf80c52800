"""SparseOperationKit 1: `sparse_operation_kit.embeddings`."""
