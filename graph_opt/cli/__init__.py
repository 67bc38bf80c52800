"""The command `graph-opt`: runs a script, rewrites a graph file, or inspects one."""
