"""Training with Adam: TensorFlow's update of whole tables, and graph_opt's of the rows read."""
