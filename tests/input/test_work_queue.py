"""`WorkQueue`: each work once, for all workers, and on from checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any, List

import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.graph.view import GraphView
from graph_opt.rules.find import find_lookups
from tests.session.parameter_servers import ParameterServer, free_addresses

WORKS = ["a", "b", "c"]


def taken(folder: str, works: List[str], number: int, epochs: int = 2) -> List[bytes]:
    """What a training that is started anew takes in so many steps."""
    with tf.Graph().as_default():
        work = graph_opt.WorkQueue(works, epochs, seed=3).take() if works else tf.constant("")
        step = tf.assign_add(tf.train.get_or_create_global_step(), 1)
        with tf.train.MonitoredTrainingSession(checkpoint_dir=folder) as session:
            return [session.run([work, step])[0] for _ in range(number)]


def rest_of(session: Any, next_work: tf.Tensor) -> List[bytes]:
    found = []
    while True:
        try:
            found.append(session.run(next_work))
        except tf.errors.OutOfRangeError:
            return found


def reading(queue: Any) -> Any:
    """A scaffold whose sessions begin to read the queue's dataset, and the next of its works."""
    iterator = tf.data.make_initializable_iterator(queue.input_dataset())
    begin = tf.group(tf.local_variables_initializer(), iterator.initializer)
    return tf.train.Scaffold(local_init_op=begin), iterator.get_next()


def test_each_epoch_has_each_work_once() -> None:
    shuffled = graph_opt.WorkQueue(WORKS, 20, seed=1, prefix="x/")
    in_order = graph_opt.WorkQueue(WORKS, 2, shuffle=False)
    assert (shuffled.name, in_order.name) == ("work_queue", "work_queue_1")
    scaffold, next_work = reading(shuffled)
    other = in_order.take()
    with tf.train.MonitoredSession(tf.train.ChiefSessionCreator(scaffold)) as session:
        works = rest_of(session, next_work)
    epochs = [works[start : start + 3] for start in range(0, 60, 3)]
    assert all(sorted(epoch) == [b"x/a", b"x/b", b"x/c"] for epoch in epochs)
    assert len(works) == 60 and len({tuple(epoch) for epoch in epochs}) > 1
    with tf.train.MonitoredSession(tf.train.ChiefSessionCreator(scaffold)) as session:
        assert rest_of(session, other) == [b"a", b"b", b"c"] * 2


def test_taking_a_work_is_no_lookup() -> None:
    graph_opt.WorkQueue(WORKS).take()
    view = GraphView(tf.get_default_graph().as_graph_def(add_shapes=True))
    assert find_lookups(view).lookups == ()


@pytest.mark.parametrize("has_saver", [True, False])
def test_an_exported_graph_is_imported_where_there_is_no_queue(
    tmp_path: Path, has_saver: bool
) -> None:
    queue = graph_opt.WorkQueue(WORKS, name="days", shuffle=False)
    next_work = queue.take()
    weight = tf.get_variable("weight", [], initializer=tf.ones_initializer())
    saver = tf.train.Saver()
    with tf.train.MonitoredSession() as session:
        session.run(next_work)
        path = saver.save(session._tf_sess(), str(tmp_path / "model"))
    meta = tf.MetaGraphDef.FromString(Path(path + ".meta").read_bytes())
    if not has_saver:
        meta.ClearField("saver_def")
    with tf.Graph().as_default(), tf.Session() as session:
        tf.train.import_meta_graph(meta).restore(session, path)
        assert session.run(weight.name) == 1.0
        if has_saver:
            assert session.run(next_work.name) == b"b"
        tf.train.Saver().save(session, str(tmp_path / "again"))


def test_training_goes_on_with_what_is_left(tmp_path: Path) -> None:
    folder = str(tmp_path)
    taken(folder, [], 1)  # a checkpoint without a queue: it begins
    first = taken(folder, WORKS, 2)
    second = taken(folder, WORKS, 4)
    assert sorted(first + second) == [b"a", b"a", b"b", b"b", b"c", b"c"]
    checkpoint = tf.train.load_checkpoint(tf.train.latest_checkpoint(folder))
    assert checkpoint.get_tensor("work_queue_digest") == b"a,b,c"
    assert checkpoint.get_tensor("work_queue_works").tolist() == []
    # Other works begin from the start.
    assert sorted(taken(folder, ["d", "e"], 2, epochs=1)) == [b"d", b"e"]


def test_workers_share_a_queue_on_the_first_server() -> None:
    cluster = {"ps": free_addresses(2)}
    servers = [ParameterServer(cluster, task) for task in range(2)]
    for server in servers:
        server.wait_until_ready()
    sessions = []
    for creator in (tf.train.ChiefSessionCreator, tf.train.WorkerSessionCreator):
        with tf.Graph().as_default():
            with tf.device(tf.train.replica_device_setter(cluster=cluster, worker_device="")):
                tf.get_variable("before", [])
                queue = graph_opt.WorkQueue(WORKS, num_epochs=4)
                work = queue.take()
            assert work.device == "/job:ps/task:0/device:CPU:0"
            scaffold = tf.train.Scaffold()
            target = "grpc://" + cluster["ps"][1]
            sessions.append((tf.train.MonitoredSession(creator(scaffold, target)), work))
    found = [session.run(work) for _ in range(6) for session, work in sessions]
    assert sorted(found) == [work.encode("utf-8") for work in sorted(WORKS * 4)]
    for session, work in sessions:
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(work)
        session.close()
    for server in servers:
        server.kill()


class Worker:
    """A worker that trains on the lines of files, of which several take theirs from one queue."""

    def __init__(self, files: List[str], cluster: Any, is_chief: bool) -> None:
        self.steps = 0
        with tf.Graph().as_default():
            setter = tf.train.replica_device_setter(cluster=cluster, worker_device="")
            with tf.device(setter):
                tf.get_variable("before", [])
                queue = graph_opt.WorkQueue(files, shuffle=False)
                dataset = tf.data.TextLineDataset(queue.input_dataset())
                iterator = tf.data.make_initializable_iterator(dataset)
                size = tf.cast(tf.strings.length(iterator.get_next()), tf.float32)
                loss = tf.square(tf.get_variable("weight", []) - size)
                step = tf.train.get_or_create_global_step()
                self._train = tf.train.GradientDescentOptimizer(0.01).minimize(loss, step)
            begin = tf.group(tf.local_variables_initializer(), iterator.initializer)
            self._session = graph_opt.train.MonitoredTrainingSession(
                "grpc://" + cluster["ps"][1],
                is_chief,
                scaffold=tf.train.Scaffold(local_init_op=begin),
            )

    def step(self) -> None:
        self._session.run(self._train)
        self.steps += 1

    def to_the_end(self) -> None:
        with pytest.raises(tf.errors.OutOfRangeError):
            while True:
                self.step()
        self._session.close()


@pytest.mark.slow
def test_a_worker_whose_works_others_have_taken_says_so(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    files = [tmp_path / "{}.txt".format(number) for number in range(40)]
    for file in files:
        file.write_text("a\nb\n")
    cluster = {"ps": free_addresses(2)}
    servers = [ParameterServer(cluster, task) for task in range(2)]
    for server in servers:
        server.wait_until_ready()
    names = [str(file) for file in files]
    most, few = Worker(names, cluster, True), Worker(names, cluster, False)
    few.step()
    most.to_the_end()
    assert "of the last" not in capfd.readouterr().err
    few.to_the_end()
    assert most.steps + few.steps == 80
    told = "this worker trained {} of the last 80 steps, of 2 workers: work queue 'work_queue' is"
    assert told.format(few.steps) in capfd.readouterr().err
    for server in servers:
        server.kill()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"works": []}, "need a list of strings"),
        ({"works": "file"}, "need a list of strings"),
        ({"works": ["a", 3]}, "3 among works is no string"),
        ({"works": ["a"], "num_epochs": 0}, "num_epochs is 0; need 1 or more"),
        ({"works": ["a"], "num_epochs": 10**9}, "use fewer epochs"),
    ],
)
def test_queues_that_cannot_be(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        graph_opt.WorkQueue(**arguments)


class Training:
    """A training on the lines of files that a queue gives out, started anew by each call."""

    def __init__(self, folder: Path, lines: List[int]) -> None:
        self._folder = str(folder / "trained")
        self._works = []
        for number, count in enumerate(lines):
            path = folder / "{}.txt".format(number)
            path.write_text("".join("{}:{}\n".format(number, line) for line in range(count)))
            self._works.append(str(path))

    def run(self, last_step: int = 1000, buffer: int = 0, epochs: int = 1) -> List[str]:
        """What the steps are given until a step, or the end, with a shuffle buffer."""
        with tf.Graph().as_default():
            queue = graph_opt.WorkQueue(self._works, epochs, shuffle=False)
            dataset = tf.data.TextLineDataset(queue.input_dataset())
            if buffer:
                dataset = dataset.shuffle(buffer, seed=1)
            iterator = tf.data.make_initializable_iterator(dataset)
            line = iterator.get_next()
            weight = tf.get_variable("weight", [], initializer=tf.zeros_initializer())
            loss = tf.square(weight - tf.cast(tf.strings.length(line), tf.float32))
            step = tf.train.get_or_create_global_step()
            train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, step)
            begin = tf.group(tf.local_variables_initializer(), iterator.initializer)
            found = []
            with graph_opt.train.MonitoredTrainingSession(
                checkpoint_dir=self._folder,
                scaffold=tf.train.Scaffold(local_init_op=begin),
                hooks=[tf.train.StopAtStepHook(last_step=last_step)],
                save_checkpoint_steps=2,
            ) as session:
                while not session.should_stop():
                    found.append(session.run([line, train])[0].decode())
        return found

    def all_lines(self) -> List[str]:
        return sorted(line for work in self._works for line in Path(work).read_text().split())


def test_works_in_a_shuffle_buffer_are_given_out_again(tmp_path: Path) -> None:
    training = Training(tmp_path, [4, 4])
    first = training.run(last_step=3, buffer=100)
    assert len(first) == 3
    again = training.run(last_step=11, buffer=100)
    assert sorted(again) == training.all_lines()


def test_works_that_were_trained_are_not_given_out_again(tmp_path: Path) -> None:
    training = Training(tmp_path, [3] * 8)
    first = training.run(last_step=10)
    assert [line[0] for line in first] == list("0001112223"[:10])
    rest = training.run()
    assert rest[0] == "3:0" and rest[-1] == "7:2"
    assert sorted({*first, *rest}) == training.all_lines()


def test_a_training_that_has_ended_says_so_when_it_is_started_again(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    training = Training(tmp_path, [2, 3])  # 5 steps, so that the last checkpoint is of the end
    assert sorted(training.run(buffer=100)) == training.all_lines()
    assert "no step was trained" not in capfd.readouterr().err
    assert training.run(buffer=100) == []
    assert "no step was trained: work queue 'work_queue' had no work left" in capfd.readouterr().err


def test_a_step_that_takes_its_own_work_trains_it(tmp_path: Path) -> None:
    folder = str(tmp_path)
    with graph_opt.install():
        first, rest = taken(folder, WORKS, 2), taken(folder, WORKS, 4)
    assert sorted(first + rest) == [b"a", b"a", b"b", b"b", b"c", b"c"]
