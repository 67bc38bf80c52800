"""Peak memory of a process that trains on micro-batches of either rule.

python tools/bench/micro_batches.py 4            batches in four parts
python tools/bench/micro_batches.py 4 batches    four batches of a quarter of the rows
"""

from __future__ import annotations

import resource
import sys
import time

import tensorflow.compat.v1 as tf

import graph_opt

BATCH, UNITS, LAYERS, STEPS = 16384, 512, 8, 6


def main(number: int, rule: str) -> None:
    """Trains, then prints how much memory training took at most, and how long a step takes."""
    tf.disable_v2_behavior()
    rows = BATCH // number if rule == "batches" else BATCH
    # Not a constant, of which the copies in the graph would hide what training takes.
    dataset = tf.data.Dataset.from_tensors(0).repeat()
    dataset = dataset.map(lambda _: tf.random.uniform([rows, UNITS], seed=1))
    inputs = tf.data.make_one_shot_iterator(dataset).get_next()
    hidden = inputs
    for layer in range(LAYERS):
        weights = tf.get_variable("weights_{}".format(layer), [UNITS, UNITS])
        hidden = tf.nn.relu(tf.matmul(hidden, weights))
    loss = tf.reduce_mean(tf.square(hidden))
    update = tf.train.AdamOptimizer(0.001).minimize(loss)
    config = graph_opt.ConfigProto()
    optimizer = config.graph_options.optimizer_options
    optimizer.micro_batch_num, optimizer.micro_batch_rule = number, rule
    with graph_opt.Session(config=config) as session:
        session.run(tf.global_variables_initializer())
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        seconds = []
        for _ in range(STEPS):
            start = time.perf_counter()
            session.run([update, loss])
            seconds.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    line = "{} {}: {:.0f} MB more than before training, {:.2f} s a step"
    print(line.format(number, rule, peak / 1024.0, sorted(seconds)[len(seconds) // 2]))


if __name__ == "__main__":
    main(int(sys.argv[1]), "".join(sys.argv[2:]) or "parts")
