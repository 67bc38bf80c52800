# ruff: noqa
# mypy: ignore-errors


class Model:
    def __init__(
        self, optimizer_type, learning_rate, inputs, bf16, input_partitioner, dense_partitioner
    ):
        if not inputs:
            raise ValueError("Dataset is not defined.")
        self._feature, self._label = inputs
        self._optimizer_type = optimizer_type
        self._learning_rate = learning_rate
        self.bf16 = bf16 and not args.tf
        self._input_partitioner = input_partitioner
        self._dense_partitioner = dense_partitioner
        self.is_training = True
        self.logits = create_model(self)
        with tf.name_scope("head"):
            self._create_loss()
            self._create_optimizer()
            self._create_metrics()

    # used to add summary in tensorboard
    def add_layer_summary(self, value, tag):
        tf.summary.scalar("%s/fraction_of_zero_values" % tag, tf.nn.zero_fraction(value))
        tf.summary.histogram("%s/activation" % tag, value)

    def dnn(self, net, hidden_units, name="hiddenlayer", logits=None):
        scope = tf.variable_scope(name, partitioner=self._dense_partitioner, reuse=tf.AUTO_REUSE)
        with scope.keep_weights(dtype=tf.float32) if self.bf16 else scope:
            if self.bf16:
                net = tf.cast(net, dtype=tf.bfloat16)
            for layer_id, num_hidden_units in enumerate(hidden_units):
                with tf.variable_scope(name + "_%d" % layer_id) as dnn_layer_scope:
                    net = tf.layers.dense(
                        net,
                        units=num_hidden_units,
                        activation=tf.nn.relu,
                        kernel_initializer=tf.glorot_uniform_initializer(),
                        name=dnn_layer_scope,
                    )
                    self.add_layer_summary(tf.cast(net, tf.float32), dnn_layer_scope.name)
            if self.bf16:
                net = tf.cast(net, dtype=tf.float32)
        if logits:
            net = tf.layers.dense(net, units=logits, activation=None, name=name + "_logits")
        return net

    def _create_loss(self):
        self.probability = tf.math.sigmoid(self.logits[0])
        self.output = tf.round(self.probability)
        labels = [tf.reshape(tf.cast(self._label, tf.float32), [-1, 1])]
        if len(self.logits) > 1:
            labels.append(tf.reshape(tf.cast(self._feature["buy"], tf.float32), [-1, 1]))
        for label, logits in zip(labels, self.logits):
            tf.losses.sigmoid_cross_entropy(
                label, logits, scope="loss", reduction=tf.losses.Reduction.SUM_OVER_BATCH_SIZE
            )
        self.loss = tf.losses.get_total_loss()
        tf.summary.scalar("loss", self.loss)

    def _create_optimizer(self):
        self.global_step = tf.train.get_or_create_global_step()
        update_ops = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
        linear = tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, scope="linear")
        other = [one for one in tf.trainable_variables() if one not in linear]
        optimizer = optimizer_of(self._optimizer_type, self._learning_rate, self.global_step)
        with tf.control_dependencies(update_ops):
            train_ops = [
                optimizer.minimize(self.loss, var_list=other, global_step=self.global_step)
            ]
            if linear:
                linear_optimizer = tf.train.FtrlOptimizer(
                    learning_rate=0.2,
                    l1_regularization_strength=0.0,
                    l2_regularization_strength=0.0,
                )
                train_ops.append(linear_optimizer.minimize(self.loss, var_list=linear))
            self.train_op = tf.group(*train_ops)

    def _create_metrics(self):
        label = tf.reshape(self._label, [-1, 1])
        self.acc, self.acc_op = tf.metrics.accuracy(labels=label, predictions=self.output)
        self.auc, self.auc_op = tf.metrics.auc(
            labels=label, predictions=self.probability, num_thresholds=1000
        )
        tf.summary.scalar("eval_acc", self.acc_op)
        tf.summary.scalar("eval_auc", self.auc_op)
