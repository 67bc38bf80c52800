"""Runs of the same training, stock and rewritten, recorded and compared.

To compare runs needs no TensorFlow. `comparison` has two records of them (`records`), and `check`
decides which further runs are needed, each of which somebody else makes: `graph-opt check` as a
process of `graph-opt run` whose environment asks for a record (`cli/recorded_run.py`),
`check_rewrite` in a session of its own.

`recorder` is told of each step twice: by its session, before anything is done about it, with the
names of the user's graph (`session/step_listeners.py`), and around the step that runs, whose
results are in the same order (`compat/step_calls.py`). Its first step that is not for
initialization (`step_kinds`) is where initial values are kept, or those of another run assigned.
"""
