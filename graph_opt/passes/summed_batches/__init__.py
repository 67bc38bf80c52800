"""Steps that train on several batches, by the sum of their gradients."""
