"""The names of SparseOperationKit (SOK), over tables that are divided among ranks."""
