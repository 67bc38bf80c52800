"""The command `graph-opt`: run a script, rewrite a graph file, look into one."""
