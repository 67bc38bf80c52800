"""DLRM over Criteo's click logs: train it with `python -m examples.dlrm.train`."""
