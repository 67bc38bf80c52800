"""Training a workload, stock or optimized, once or alternately."""
