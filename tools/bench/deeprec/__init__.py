"""Scripts as DeepRec's users write them: TensorFlow alone against DeepRec's flags on graph_opt."""
