"""One file for each public lookup function, declaring the graph that it writes as a pattern."""
