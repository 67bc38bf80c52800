"""What a step of a graph costs, told from shapes and devices: the graph is not run."""
