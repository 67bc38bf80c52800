"""Stages at run time: making them (`staged`), running them (`runner`), watching them (`metrics`).

A stage is a buffer and the threads that fill it. Everything a runner needs is in the graph
(see `graph_opt.ops.stage_spec`); only what a graph cannot hold, Python feeds and exception
classes, is kept beside it (`python_spec`).
"""
