// Where things are drawn. Each open scope is laid out by dagre on its own, its parts as boxes whose
// sizes are known, so that opening a scope changes only the scopes around it.

const LEAF_HEIGHT = 26;
const SCOPE_HEIGHT = 40;
const TITLE_HEIGHT = 24;
const PADDING = 14;
const CHARACTER = 6.6;
const MOST_LABEL = 30;
const MOST_EDGES = 400;
const MOST_BENDS = 800; // Edges with more bends than these together are drawn straight: dagre takes seconds for them.
const LOOKUP = "\u25c6"; // Marks nodes and scopes with lookups.
const LOSS = "\u25ce"; // Marks the loss, and scopes that contain it.

class GraphLayout {
  /**
   * @param tree The scopes.
   * @param view What is open, and whether constants and idle nodes are drawn.
   */
  constructor(tree, view) {
    this.tree = tree;
    this.view = view;
    this.known = new Map();
  }

  isOpen(item) {
    return item.children.length > 0 && (item === this.tree.root || this.view.open.has(item.key) || this.isWrapper(item));
  }

  /** How many nodes of an item are drawn. */
  drawn(item) {
    return item.size - (this.view.constants ? 0 : item.constants) - (this.view.idle ? 0 : item.idle);
  }

  isDrawn(item) {
    return this.drawn(item) > 0;
  }

  /** Whether a scope has a single part, which is drawn in its place. */
  isWrapper(item) {
    if (!item.parent || !item.children.length) return false;
    let parts = 0;
    for (const child of item.children) if (this.isDrawn(child) && ++parts > 1) return false;
    return parts === 1;
  }

  /** What is drawn for an item. */
  unwrapped(item) {
    let one = item;
    while (this.isWrapper(one)) one = one.children.find((child) => this.isDrawn(child));
    return one;
  }

  partsOf(item) {
    return item.children.filter((child) => this.isDrawn(child)).map((child) => this.unwrapped(child));
  }

  /** What an item is called where it is drawn: with the names of scopes that it is drawn for. */
  label(item) {
    let label = item.label;
    for (let one = item.parent; one && this.isWrapper(one); one = one.parent) {
      if (label === "(" + one.label + ")") label = one.label;
      else if (one.kind === "scope") label = one.label + "/" + label;
    }
    const marks = item.node >= 0 ? (item.lookups ? LOOKUP + " " : "") + (item.losses ? LOSS + " " : "") : "";
    return marks + shortenedAmong(item, label);
  }

  /** Forgets an item and what it is in, because it was opened or closed. */
  forget(item) {
    for (let one = item; one; one = one.parent) this.known.delete(one);
  }

  forgetAll() {
    this.known.clear();
  }

  /** Size of an item, and for an open one the places of its parts and of the edges between them. */
  of(item) {
    let layout = this.known.get(item);
    if (layout === undefined) {
      layout = this.isOpen(item) ? this.inside(item) : this.closed(item);
      this.known.set(item, layout);
    }
    return layout;
  }

  inside(item) {
    const parts = this.partsOf(item);
    const between = this.edgesBetween(item, parts);
    const aside = item === this.tree.root ? this.readsAside(between) : new Set();
    const all = between.filter((edge) => !aside.has(edge.to)).sort((one, other) => other.count - one.count);
    const edges = all.slice(0, MOST_EDGES);
    const connected = new Set();
    for (const edge of edges) connected.add(edge.from).add(edge.to);
    const placed = this.placed(parts.filter((part) => connected.has(part)), edges);
    const title = item.parent ? TITLE_HEIGHT : 0;
    for (const box of placed.boxes) box.y += title;
    for (const edge of placed.edges) for (const point of edge.points) point.y += title;
    const alone = parts.filter((part) => !connected.has(part));
    const size = this.addGrid(alone, placed, title);
    if (item.parent) size.width = Math.max(size.width, this.titleOf(item).length * CHARACTER + 24);
    return { ...size, boxes: placed.boxes, edges: placed.edges, omitted: all.length - edges.length, aside: [...aside] };
  }

  /** Parts such as `save`, which no batch reaches and nothing reads: edges to them would hide the others. */
  readsAside(edges) {
    const read = new Set(edges.map((edge) => edge.from));
    const last = new Set(edges.map((edge) => edge.to).filter((part) => !read.has(part)));
    const isReached = [...read].some((part) => this.turn(part) !== null);
    return new Set(isReached ? [...last].filter((part) => this.turn(part) === null) : []);
  }

  /** When a part runs in a step, by the median of its nodes; null if no batch reaches it. */
  turn(item) {
    if (item.node >= 0) return this.tree.model.turn(item.node);
    const reached = item.turns.reduce((sum, count) => sum + count, 0);
    let before = 0;
    return reached ? item.turns.findIndex((count) => (before += count) > reached / 2) : null;
  }

  /** Whether an edge leads from what runs later in a step to what runs earlier. */
  goesBack({ from, to }) {
    const [one, other] = [this.turn(from), this.turn(to)];
    return one !== null && other !== null && one > other;
  }

  edgesBetween(item, parts) {
    const drawn = new Set(parts);
    const found = new Map();
    const pairs = item.edges || [];
    const { itemOf, model } = this.tree;
    const shown = new Map();
    const shownPart = (node) => {
      const part = partOf(item, itemOf[node]);
      if (!shown.has(part)) shown.set(part, this.unwrapped(part));
      return shown.get(part);
    };
    for (let i = 0; i < pairs.length; i += 2) {
      if (!this.isDrawn(itemOf[pairs[i]]) || !this.isDrawn(itemOf[pairs[i + 1]])) continue;
      const from = shownPart(pairs[i]);
      const to = shownPart(pairs[i + 1]);
      if (!drawn.has(from) || !drawn.has(to)) continue;
      let readers = found.get(from);
      if (readers === undefined) found.set(from, (readers = new Map()));
      let edge = readers.get(to);
      if (edge === undefined) readers.set(to, (edge = { from, to, count: 0, buffer: false, pairs: [] }));
      edge.count++;
      edge.pairs.push(pairs[i], pairs[i + 1]);
      if (model.puts(pairs[i + 1]).includes(pairs[i])) edge.buffer = true;
    }
    return [...found.values()].flatMap((readers) => [...readers.values()]);
  }

  placed(parts, edges) {
    if (!parts.length) return { boxes: [], edges: [], width: 0, height: 0 };
    const graph = new dagre.graphlib.Graph({ multigraph: true });
    graph.setGraph({ rankdir: "LR", nodesep: 12, ranksep: 34, edgesep: 6 });
    const names = new Map();
    parts.forEach((part, number) => {
      const { width, height } = this.of(part);
      names.set(part, String(number));
      graph.setNode(String(number), { width, height });
    });
    // Edges that go back are laid out the other way round: data goes from left to right.
    const ends = (edge) => (this.goesBack(edge) ? [edge.to, edge.from] : [edge.from, edge.to]);
    const endsOf = (edge) => {
      const [first, second] = ends(edge).map((part) => names.get(part));
      return [first, second, this.goesBack(edge) ? "back" : "forth"];
    };
    for (const edge of toRoute(parts, edges, ends)) {
      const [from, to, name] = endsOf(edge);
      graph.setEdge(from, to, { weight: name === "back" ? 0 : Math.min(edge.count, 8) }, name);
    }
    dagre.layout(graph);
    const boxes = parts.map((part) => {
      const { x, y, width, height } = graph.node(names.get(part));
      return { item: part, x: x - width / 2 + PADDING, y: y - height / 2 + PADDING, width, height };
    });
    const routed = routesOf(edges, boxes, (edge) => graph.edge(...endsOf(edge)), (edge) => this.goesBack(edge));
    attach(boxes, routed);
    const { width, height } = graph.graph();
    return { boxes, edges: routed, width, height };
  }

  closed(item) {
    const below = item.node >= 0 ? 0 : this.countOf(item).length;
    const length = Math.max(this.label(item).length, below);
    const height = item.node >= 0 ? LEAF_HEIGHT : SCOPE_HEIGHT;
    return { width: Math.max(length * CHARACTER + 22, 56), height, boxes: null, edges: [] };
  }

  /** What a closed scope holds. */
  countOf(item) {
    const lookups = item.lookups ? "  " + LOOKUP + " " + counted(item.lookups, "lookup") : "";
    return counted(this.drawn(item), "node") + lookups + (item.losses ? "  " + LOSS + " loss" : "");
  }

  titleOf(item) {
    return this.label(item) + "  (" + grouped(this.drawn(item)) + ")";
  }

  /** Puts parts without edges below the others, in rows; returns the size of all. */
  addGrid(alone, placed, title) {
    const sizes = alone.map((part) => this.of(part));
    const area = sizes.reduce((sum, { width, height }) => sum + (width + 12) * (height + 12), 0);
    const most = Math.max(placed.width, Math.sqrt(area * 2.2), ...sizes.map((size) => size.width));
    const top = placed.boxes.length ? placed.height + PADDING : 0;
    let x = 0;
    let y = top;
    let row = 0;
    let width = placed.width;
    alone.forEach((item, number) => {
      const size = sizes[number];
      if (x > 0 && x + size.width > most) {
        x = 0;
        y += row + 12;
        row = 0;
      }
      const place = { x: x + PADDING, y: y + PADDING + title };
      placed.boxes.push({ item, ...place, width: size.width, height: size.height });
      x += size.width + 12;
      row = Math.max(row, size.height);
      width = Math.max(width, x - 12);
    });
    const height = alone.length ? y + row : placed.height;
    return { width: Math.max(width, 60) + 2 * PADDING, height: height + 2 * PADDING + title };
  }
}

/** A label, of a long one the part in which it differs from that of its neighbour. */
function shortenedAmong(item, label) {
  const siblings = item.parent ? item.parent.children : [];
  const at = siblings.indexOf(item);
  const other = siblings[at - 1] || siblings[at + 1];
  const text = printable(label);
  if (text.length <= MOST_LABEL || !other || !label.endsWith(item.label)) return shortened(text, MOST_LABEL);
  let same = 0;
  while (same < item.label.length && item.label[same] === other.label[same]) same++;
  const place = label.length - item.label.length + same;
  if (place < MOST_LABEL / 3 || place > label.length - MOST_LABEL / 3) return shortened(text, MOST_LABEL);
  return shortened(printable(around(label, place, MOST_LABEL - 2)), MOST_LABEL);
}

/**
 * The edges that decide where parts are: those from each rank to the next, and the strongest of the
 * others until they would have too many bends.
 *
 * @param edges The strongest first.
 * @param ends Gives both parts of an edge, the left one first.
 */
function toRoute(parts, edges, ends) {
  const ranks = ranksOf(parts, edges.map(ends));
  let bends = 0;
  return edges.filter((edge) => {
    const [from, to] = ends(edge).map((part) => ranks.get(part));
    if (to - from === 1) return true;
    bends += 2 * Math.abs(to - from); // As many as dagre has for it.
    return bends <= MOST_BENDS;
  });
}

/** How far to the right each part is, by the longest way to it; what closes a circle does not count. */
function ranksOf(parts, pairs) {
  const following = new Map(parts.map((part) => [part, []]));
  for (const [from, to] of pairs) following.get(from).push(to);
  const seen = new Set();
  const last = []; // Each part before all that lead to it.
  const visit = (part) => {
    seen.add(part);
    for (const next of following.get(part)) if (!seen.has(next)) visit(next);
    last.push(part);
  };
  for (const part of parts) if (!seen.has(part)) visit(part);
  const order = new Map(last.reverse().map((part, at) => [part, at]));
  const ranks = new Map(last.map((part) => [part, 0]));
  for (const part of last) {
    for (const next of following.get(part)) {
      if (order.get(next) > order.get(part)) ranks.set(next, Math.max(ranks.get(next), ranks.get(part) + 1));
    }
  }
  return ranks;
}

/** The edges with the points that they go through: what `routeOf` has for them, or a straight line. */
function routesOf(edges, boxes, routeOf, goesBack) {
  const boxOf = new Map(boxes.map((box) => [box.item, box]));
  return edges.map((edge) => {
    const route = routeOf(edge);
    if (route === undefined) return { ...edge, points: straight(boxOf.get(edge.from), boxOf.get(edge.to)) };
    const points = route.points.map(({ x, y }) => ({ x: x + PADDING, y: y + PADDING }));
    return { ...edge, points: goesBack(edge) ? points.reverse() : points };
  });
}

/** A line from the side of one box to that of another. */
function straight(from, to) {
  const goesBack = from.x + from.width > to.x;
  const middle = ({ y, height }) => y + height / 2;
  return [
    { x: goesBack ? from.x : from.x + from.width, y: middle(from) },
    { x: goesBack ? to.x + to.width : to.x, y: middle(to) },
  ];
}

/** Lets edges begin at the right side of a box and end at the left one, side by side. */
function attach(boxes, edges) {
  const boxOf = new Map(boxes.map((box) => [box.item, box]));
  const sides = new Map();
  for (const edge of edges) {
    const [from, to] = [boxOf.get(edge.from), boxOf.get(edge.to)];
    if (from.x + from.width > to.x) continue; // Goes back.
    const last = edge.points.length - 1;
    for (const [box, side, point, next] of [[from, 1, edge.points[0], edge.points[1]], [to, 0, edge.points[last], edge.points[last - 1]]]) {
      if (!sides.has(box)) sides.set(box, [[], []]);
      sides.get(box)[side].push({ point, next });
    }
  }
  for (const [box, both] of sides) {
    both.forEach((ends, side) => {
      ends.sort((one, other) => one.next.y - other.next.y);
      ends.forEach(({ point }, number) => {
        point.x = box.x + (side ? box.width : 0);
        point.y = box.y + box.height * (0.2 + (0.6 * (number + 0.5)) / ends.length);
      });
    });
  }
}
