"""Pure passes: GraphDef and options in, rewrite and report out."""
