"""A graph, and what passes made of it, as one HTML file that needs no network.

`page_content` is all that a page shows, as plain data: graphs as columns of numbers
(`graph_columns`), what the rewrite did to each node (`changes`), bodies of functions beside their
calls (`called_nodes`), rows of lookups (`lookup_rows`). `page` puts data, scripts and styles into
one file.

The scripts are in `web/`, in the order in which `page` joins them: `graph_model.js` reads the
columns, `graph_tree.js` makes scopes and groups of them, `graph_layout.js` has dagre lay out those
that are open, and `graph_drawing.js` draws these as SVG.
"""
