"""Prints what a script sees of its environment, for comparison with plain Python."""

import atexit
import json
import pickle
import sys

import __main__


class Thing:
    pass


def last_words() -> None:
    print("at exit", Thing.__name__)


atexit.register(last_words)
print(
    json.dumps(
        {
            "argv": sys.argv,
            "file": __file__,
            "name": __name__,
            "path": sys.path[0],
            "package": __package__,
            "doc": __doc__,
            "tensorflow": "tensorflow" in sys.modules,
            "main": __main__.__dict__ is globals(),
            "pickled": type(pickle.loads(pickle.dumps(Thing()))) is Thing,
        }
    )
)
sys.exit(7)
