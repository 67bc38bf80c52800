"""Benchmarks: `python -m tools.bench [NAME...]`, or `make bench` and `make bench-NAME`.

Each benchmark is a module that measures and returns records; what all of them share is here too:

    machine.py   what the figures were measured on
    records.py   figures, goals, the JSON file and the printed table
    charts.py    pictures of them, as SVG
    publish.py   what docs/ shows of them
    turns.py     contestants measured alternately: A B A B ...
    workloads/   the models that are trained, and their data
    cluster/     parameter servers in processes of their own, and a proxy that delays them
    training/    stock and optimized sessions side by side, and the floor below both

A benchmark prints its table and writes the same figures to `build/bench/NAME.json`, with
charts beside it where it has any.
"""
