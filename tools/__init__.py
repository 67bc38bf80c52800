"""Scripts around the project; `tools.bench` holds the benchmarks."""
