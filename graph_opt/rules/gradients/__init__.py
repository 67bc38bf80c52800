"""How `tf.gradients` writes the gradients of lookups."""
