"""`tf.contrib.predictor`: a SavedModel, or an Estimator, as a function of arrays."""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, Optional

import numpy as np

from graph_opt.compat import tf
from graph_opt.contrib.files import missing_from

_DEFAULT = "serving_default"
_PREDICT = "infer"  # tf.estimator.ModeKeys.PREDICT, which some releases lack.


class Predictor:
    """A model in a session of its own; see `from_saved_model` and `from_estimator`.

    Attributes:
      graph: Its graph.
      session: Its session.
      feed_tensors: Its inputs by name.
      fetch_tensors: Its outputs by name.
    """

    def __init__(
        self,
        graph: Any,
        session: Any,
        feed_tensors: Dict[str, tf.Tensor],
        fetch_tensors: Dict[str, tf.Tensor],
    ) -> None:
        self.graph = graph
        self.session = session
        self.feed_tensors = feed_tensors
        self.fetch_tensors = fetch_tensors

    def __call__(self, input_dict: Mapping[str, Any]) -> Dict[str, np.ndarray]:
        """Outputs by name.

        Args:
          input_dict: Values by the names of inputs.

        Raises:
          ValueError: There is no input of that name.
        """
        unknown = sorted(set(input_dict) - set(self.feed_tensors))
        if unknown:
            raise ValueError(
                "predictor: there is no input {}; inputs are {}".format(
                    ", ".join(map(repr, unknown)), ", ".join(sorted(self.feed_tensors))
                )
            )
        feeds = {self.feed_tensors[name]: value for name, value in input_dict.items()}
        values: Dict[str, np.ndarray] = self.session.run(self.fetch_tensors, feeds)
        return values


def from_saved_model(
    export_dir: str,
    signature_def_key: Optional[str] = None,
    signature_def: Any = None,
    input_names: Optional[Mapping[str, str]] = None,
    output_names: Optional[Mapping[str, str]] = None,
    tags: Optional[str] = None,
    graph: Any = None,
    config: Any = None,
) -> Predictor:
    """Loads a SavedModel to predict with.

    Args:
      export_dir: Its folder.
      signature_def_key: Which signature; `serving_default` by default.
      signature_def: A signature, in place of the name of one.
      input_names: Names of tensors by names of inputs, in place of a signature.
      output_names: The same of outputs.
      tags: Tags of the model, separated by commas; `serve` by default.
      graph: The graph to load it into; a new one by default.
      config: Of the session.

    Raises:
      ValueError: Several of these name inputs and outputs; there is no such signature.
      OSError: There is no SavedModel.

    Example:
      >>> predict = tf.contrib.predictor.from_saved_model("exported/1554540187")
      >>> predict({"user": [7, 8]})["score"]
    """
    if (input_names is None) != (output_names is None):
        raise ValueError("from_saved_model: input_names and output_names go together")
    given = (signature_def_key, signature_def, input_names)
    if sum(one is not None for one in given) > 1:
        raise ValueError(
            "from_saved_model: signature_def_key, signature_def and input_names exclude each other"
        )
    graph = graph or tf.Graph()
    with graph.as_default():
        session = tf.Session(config=config)
        model = tf.saved_model.loader.load(session, (tags or "serve").split(","), export_dir)
    if input_names is None or output_names is None:
        signature = signature_def or _signature(model, signature_def_key or _DEFAULT)
        return _of_signature(graph, session, signature)
    return _of_names(graph, session, input_names, output_names)


def from_estimator(
    estimator: Any,
    serving_input_receiver_fn: Callable[[], Any],
    output_key: Optional[str] = None,
    graph: Any = None,
    config: Any = None,
) -> Predictor:
    """Predicts with the last checkpoint of an Estimator.

    Args:
      estimator: A `tf.estimator.Estimator`.
      serving_input_receiver_fn: What `estimator.export_saved_model` takes.
      output_key: Which of the model's `export_outputs`; `serving_default` by default.
      graph: The graph to build the model in; a new one by default.
      config: Of the session.

    Raises:
      KeyError: The model has no such output.

    Example:
      >>> predict = tf.contrib.predictor.from_estimator(estimator, serving_input_receiver_fn)
      >>> predict({"user": [7, 8]})["score"]
    """
    graph = graph or tf.Graph()
    with graph.as_default():
        receiver = serving_input_receiver_fn()
        spec = estimator.model_fn(receiver.features, None, _PREDICT, estimator.config)
        outputs = spec.export_outputs or {}
        key = output_key or _DEFAULT
        if key not in outputs:
            raise KeyError(
                "from_estimator: output_key is {!r}; the model's export_outputs are {}".format(
                    key, ", ".join(sorted(outputs)) or "none"
                )
            )
        signature = outputs[key].as_signature_def(receiver.receiver_tensors)
        creator = tf.train.ChiefSessionCreator(
            spec.scaffold, config=config, checkpoint_dir=estimator.model_dir
        )
        return _of_signature(graph, tf.train.MonitoredSession(creator), signature)


def _of_signature(graph: Any, session: Any, signature: Any) -> Predictor:
    return _of_names(
        graph,
        session,
        {name: info.name for name, info in signature.inputs.items()},
        {name: info.name for name, info in signature.outputs.items()},
    )


def _of_names(
    graph: Any, session: Any, inputs: Mapping[str, str], outputs: Mapping[str, str]
) -> Predictor:
    return Predictor(
        graph,
        session,
        {name: graph.get_tensor_by_name(tensor) for name, tensor in inputs.items()},
        {name: graph.get_tensor_by_name(tensor) for name, tensor in outputs.items()},
    )


def _signature(model: Any, key: str) -> Any:
    if key not in model.signature_def:
        raise ValueError(
            "from_saved_model: there is no signature {!r}; there are {}".format(
                key, ", ".join(sorted(model.signature_def))
            )
        )
    return model.signature_def[key]


__getattr__ = missing_from(
    __name__,
    {"from_*": "from_estimator, or from_saved_model of what estimator.export_saved_model writes"},
)
