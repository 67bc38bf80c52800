// A graph as SVG: what is visible of its tree, with pan, zoom and keys.

const MOST_VISIBLE = 1500;
const MOST_INNER = 12;
const LEAST_ZOOM = 0.04;
const MOST_ZOOM = 3;

class GraphDrawing {
  /**
   * @param model The graph.
   * @param view What is shared with other drawings: open scopes, colours, constants.
   * @param listener Told of `select(item)` and `toggle(item)`.
   */
  constructor(model, view, listener) {
    this.model = model;
    this.view = view;
    this.listener = listener;
    this.tree = new GraphTree(model);
    this.layout = new GraphLayout(this.tree, view);
    this.places = new Map();
    this.tallies = new Map();
    this.selected = null;
    this.path = [];
    this.at = { x: 0, y: 0, zoom: 1 };
    this.content = svg("g", {});
    this.element = svg(
      "svg",
      { class: "drawing", role: "group", "aria-label": "Graph " + model.label + ": arrow keys move, Enter opens and closes" },
      svg("defs", {}, arrowHead("arrow"), arrowHead("arrow-path")),
      this.content,
    );
    this.listen();
  }

  render() {
    const root = this.layout.of(this.tree.root);
    this.aside = root.aside || [];
    this.places.clear();
    this.omitted = 0;
    this.place(this.tree.root, root, 0, 0);
    const edges = svg("g", { class: "edges" });
    const boxes = svg("g", {});
    this.draw(this.tree.root, boxes, edges);
    this.content.replaceChildren(boxes, edges);
    // Boxes of open scopes lie below edges, whatever is closed above them.
    const above = svg("g", {});
    for (const one of [...boxes.children]) if (!one.classList.contains("open")) above.append(one);
    this.content.append(above);
    this.move();
  }

  place(item, layout, x, y) {
    this.places.set(item, { x, y, width: layout.width, height: layout.height });
    this.omitted += layout.omitted || 0;
    for (const box of layout.boxes || []) {
      this.place(box.item, this.layout.of(box.item), x + box.x, y + box.y);
    }
  }

  /** How many items opening one would add. */
  wouldAdd(item) {
    return this.layout.partsOf(item).length;
  }

  draw(item, boxes, edges) {
    const layout = this.layout.of(item);
    const place = this.places.get(item);
    const onPath = this.pathEdges(item);
    for (const edge of layout.edges) this.drawEdge(edge, place, edges, onPath);
    for (const box of layout.boxes || []) {
      boxes.append(this.box(box.item));
      if (this.layout.isOpen(box.item)) this.draw(box.item, boxes, edges);
    }
  }

  box(item) {
    const { x, y, width, height } = this.places.get(item);
    const open = this.layout.isOpen(item);
    const names = ["item", item.kind, open ? "open" : ""];
    if (item === this.selected) names.push("selected");
    if (this.path.length && this.onPath.has(item)) names.push("path");
    else if (this.path.length && !open) names.push("dimmed");
    const group = svg("g", {
      class: names.join(" ").trim(),
      transform: "translate(" + x.toFixed(1) + "," + y.toFixed(1) + ")",
      role: "button",
      tabindex: item === this.focusable() ? "0" : "-1",
      "aria-label": this.spoken(item),
      "aria-expanded": item.children.length ? String(open) : undefined,
    });
    const category = item.node >= 0 ? " " + this.view.colours.of(this.model, item.node) : "";
    group.append(svg("rect", { class: "body" + category, width, height, rx: item.kind === "node" ? 13 : 5 }));
    if (open) {
      group.append(svg("text", { x: 10, y: 17, class: "label" }, this.layout.titleOf(item)));
    } else if (item.node >= 0) {
      group.append(svg("text", { x: width / 2, y: height / 2 + 4, class: "label middle" }, this.layout.label(item)));
    } else {
      group.append(svg("text", { x: 10, y: 16, class: "label" }, this.layout.label(item)));
      group.append(svg("text", { x: 10, y: 29, class: "count" }, this.layout.countOf(item)));
      this.addShares(group, item, width, height);
    }
    group.append(svg("title", {}, this.tooltip(item)));
    group.item = item;
    return group;
  }

  /** A bar that shows which part of a closed scope has which colour. */
  addShares(group, item, width, height) {
    const tally = this.tally(item, true);
    const total = tally.reduce((sum, [, count]) => sum + count, 0);
    let x = 5;
    for (const [category, count] of tally) {
      const share = ((width - 10) * count) / total;
      group.append(svg("rect", { class: "share " + category, x, y: height - 7, width: Math.max(share, 0.5), height: 4 }));
      x += share;
    }
  }

  /** How many nodes in an item have each colour: all, or those that are drawn. */
  tally(item, drawn = false) {
    const { colours, constants, idle } = this.view;
    const what = drawn ? [colours.mode, constants, idle].join() : colours.mode;
    if (!this.tallies.has(what)) this.tallies.set(what, new Map());
    const known = this.tallies.get(what);
    if (!known.has(item)) known.set(item, this.coloursIn(item, drawn));
    return known.get(item);
  }

  coloursIn(item, drawn) {
    const counts = new Map();
    for (const node of nodesIn(item)) {
      if (drawn && !this.layout.isDrawn(this.tree.itemOf[node])) continue;
      const category = this.view.colours.of(this.model, node);
      counts.set(category, (counts.get(category) || 0) + 1);
    }
    return [...counts].sort();
  }

  drawEdge(edge, place, edges, onPath) {
    const start = edge.points[0];
    const end = edge.points[edge.points.length - 1];
    const shift = ({ x, y }) => ({ x: x + place.x, y: y + place.y });
    const isPath = onPath.has(edge.from) && onPath.get(edge.from).has(edge.to);
    const near = edge.from === this.selected || edge.to === this.selected;
    const style = ["edge", edge.buffer ? "buffer" : "", isPath ? "path" : near ? "near" : this.path.length ? "dimmed" : ""];
    const attributes = { class: style.join(" ").trim(), "stroke-width": (1 + Math.log10(edge.count)).toFixed(1) };
    const head = isPath ? "url(#arrow-path)" : "url(#arrow)";
    const main = svg("path", { ...attributes, d: curve(edge.points.map(shift)), "marker-end": this.layout.isOpen(edge.to) ? undefined : head });
    main.append(svg("title", {}, counted(edge.count, "edge") + (edge.buffer ? ", through a buffer" : "")));
    edges.append(main);
    const plain = { ...attributes, class: "edge inner" + (near ? " near" : this.path.length ? " dimmed" : ""), "stroke-width": 1 };
    this.drawInside(edge, edge.to, 1, shift(end), plain, isPath, edges);
    this.drawInside(edge, edge.from, 0, shift(start), plain, isPath, edges);
  }

  /** Goes on from the border of an open scope to what is inside: to all if that is not much. */
  drawInside(edge, scope, side, border, attributes, isPath, edges) {
    if (!this.layout.isOpen(scope)) return;
    const ends = new Set();
    for (let i = side; i < edge.pairs.length; i += 2) ends.add(this.visible(edge.pairs[i]));
    const next = isPath ? this.visible(this.pathEnd(edge, side)) : null;
    for (const item of ends) {
      if (!this.places.has(item)) continue;
      const marked = item === next ? "path" : item === this.selected ? "near" : "";
      if (ends.size > MOST_INNER && !marked) continue;
      const { x, y, width, height } = this.places.get(item);
      const point = { x: side ? x : x + width, y: y + height / 2 };
      const d = curve(side ? [border, point] : [point, border]);
      const shown = marked ? { class: "edge " + marked, "stroke-width": 1.5 } : attributes;
      const head = marked === "path" ? "url(#arrow-path)" : "url(#arrow)";
      edges.append(svg("path", { ...shown, d, "marker-end": side ? head : undefined }));
    }
  }

  /** The innermost visible item that has a node. */
  visible(node) {
    let found = this.tree.itemOf[node];
    for (let one = found; one && one.parent; one = one.parent) {
      if (!this.layout.isOpen(one.parent)) found = one.parent;
    }
    return found;
  }

  /** An item, or what it is in and is drawn closed. */
  shownFor(item) {
    return item.node >= 0 ? this.layout.unwrapped(this.visible(item.node)) : item;
  }

  /** Which parts of an item a path goes to from which others. */
  pathEdges(item) {
    const found = new Map();
    for (let i = 1; i < this.path.length; i++) {
      const [one, other] = [this.tree.itemOf[this.path[i - 1]], this.tree.itemOf[this.path[i]]];
      if (!one || !other || common(one, other) !== item) continue;
      const from = this.layout.unwrapped(partOf(item, one));
      if (!found.has(from)) found.set(from, new Set());
      found.get(from).add(this.layout.unwrapped(partOf(item, other)));
    }
    return found;
  }

  /** The node of the path where an edge on it begins (0) or ends (1). */
  pathEnd(edge, side) {
    for (let i = 1; i < this.path.length; i++) {
      const pair = [this.path[i - 1], this.path[i]];
      for (let k = 0; k < edge.pairs.length; k += 2) {
        if (edge.pairs[k] === pair[0] && edge.pairs[k + 1] === pair[1]) return pair[side];
      }
    }
    return edge.pairs[side];
  }

  setPath(nodes) {
    this.path = nodes.filter((node) => this.model.has(node));
    this.onPath = new Set();
    for (const node of this.path) {
      for (let one = this.tree.itemOf[node]; one; one = one.parent) this.onPath.add(one);
    }
  }

  spoken(item) {
    if (item.node >= 0) return this.model.op(item.node) + " " + this.model.name(item.node) + (item.lookups ? ", " + counted(item.lookups, "lookup") : "") + (item.losses ? ", loss" : "");
    return (item.kind === "scope" ? "scope " : "group ") + item.label + ", " + counted(item.size, "node") + (item.lookups ? ", " + counted(item.lookups, "lookup") : "") + (item.losses ? ", loss" : "");
  }

  tooltip(item) {
    if (item.node < 0) return item.key + "\u2003" + counted(item.size, "node");
    return this.model.name(item.node) + "\u2003" + this.model.op(item.node);
  }

  focusable() {
    if (this.selected && this.places.has(this.selected)) return this.selected;
    const layout = this.layout.of(this.tree.root);
    return layout.boxes.length ? layout.boxes[0].item : null;
  }

  itemWithKey(key, from = this.tree.root) {
    if (from.key === key && from !== this.tree.root) return from;
    for (const child of from.children) {
      if (!key.startsWith(child.key.replace(/\{.*$/s, ""))) continue;
      const found = this.itemWithKey(key, child);
      if (found) return found;
    }
    return null;
  }

  /** Opens all that a node is in. */
  reveal(node) {
    for (let one = this.tree.itemOf[node].parent; one && one.parent; one = one.parent) this.view.open.add(one.key);
  }

  /** Opens or closes a scope. */
  toggle(item) {
    if (!item.children.length || item === this.tree.root) return;
    if (this.view.open.has(item.key)) {
      this.view.open.delete(item.key);
    } else if (this.places.size + this.wouldAdd(item) > MOST_VISIBLE) {
      announce("Too much is open: close some scopes first");
      return;
    } else {
      this.view.open.add(item.key);
      this.openFunction(item);
    }
    this.listener.toggle(item);
  }

  /** Opens the function of a call, if it is the only one, with the call. */
  openFunction(item) {
    const parts = this.layout.partsOf(item).filter((part) => part.children.length);
    const isCall = item.children.some((part) => part.node >= 0 && this.model.returned(part.node).length);
    if (!isCall || parts.length !== 1 || this.places.size + this.wouldAdd(parts[0]) > MOST_VISIBLE) return;
    this.view.open.add(parts[0].key);
    this.layout.forget(parts[0]);
  }
}

function arrowHead(id) {
  const box = { viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" };
  return svg("marker", { id, class: id, markerUnits: "userSpaceOnUse", ...box }, svg("path", { d: "M0,1 L8,4 L0,7 z" }));
}

function at({ x, y }) {
  return x.toFixed(1) + "," + y.toFixed(1);
}

/** A smooth line through the points. */
function curve(points) {
  let d = "M" + at(points[0]);
  for (let i = 1; i < points.length; i++) {
    const [from, to] = [points[i - 1], points[i]];
    const middle = (from.x + to.x) / 2;
    d += "C" + at({ x: middle, y: from.y }) + " " + at({ x: middle, y: to.y }) + " " + at(to);
  }
  return d;
}
