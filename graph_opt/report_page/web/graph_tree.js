// The name scopes of a graph as a tree. What has too many parts gets a level more: parts whose names
// differ in numbers only are one group, and what is then still too much is divided by name.

const GROUP_ABOVE = 24; // More parts are grouped by name.
const LEAST_ALIKE = 3;
const MOST_PARTS = 48; // More parts are divided.

class GraphTree {
  constructor(model) {
    this.model = model;
    this.itemOf = new Array(model.length);
    this.root = this.newItem("scope", "", "", null);
    this.addScopes();
    this.group(this.root);
    this.count(this.root);
    this.addEdges();
  }

  newItem(kind, label, key, parent, node = -1) {
    const item = { kind, label, key, parent, node, depth: 0, children: [], size: 0, lookups: 0, losses: 0, constants: 0, idle: 0, edges: null };
    if (parent) parent.children.push(item);
    return item;
  }

  addScopes() {
    const { model } = this;
    const { scope, leaf, scopeNames, scopeParents } = model.data;
    const scopes = [this.root];
    const itemOfScope = (number) => {
      if (!scopes[number]) {
        const above = itemOfScope(scopeParents[number]);
        scopes[number] = this.newItem("scope", scopeNames[number], model.scopePath(number) + "/", above);
      }
      return scopes[number];
    };
    for (const node of model.nodes()) {
      const stage = model.ioScope(node);
      const above = itemOfScope(stage < 0 ? scope[node] : stage);
      const label = leaf[node] === "" ? "(" + scopeNames[scope[node]] + ")" : leaf[node];
      this.itemOf[node] = this.newItem("node", label, model.name(node), above, node);
    }
  }

  group(item) {
    for (const child of item.children) if (child.children.length) this.group(child);
    if (item.children.length > GROUP_ABOVE) this.groupAlike(item);
    if (item.children.length > MOST_PARTS) this.divide(item);
  }

  groupAlike(item) {
    const alike = new Map();
    for (const child of item.children) {
      const stem = child.label.replace(/_\d+$/, "").replace(/\d+/g, "*");
      const key = child.kind + " " + stem;
      if (!alike.has(key)) alike.set(key, { stem, members: [] });
      alike.get(key).members.push(child);
    }
    const children = [];
    for (const { stem, members: unsorted } of alike.values()) {
      const members = sortedByNumbers(unsorted);
      if (members.length < LEAST_ALIKE || alike.size === 1) children.push(...members);
      else children.push(this.groupOf(item, stem + " ×" + members.length, members));
    }
    item.children = children;
    for (const child of children) if (child.children.length > MOST_PARTS && child.kind === "group") this.divide(child);
  }

  divide(item) {
    while (item.children.length > MOST_PARTS) {
      const parts = Math.ceil(item.children.length / MOST_PARTS);
      const length = Math.ceil(item.children.length / parts);
      const divided = [];
      for (let i = 0; i < item.children.length; i += length) {
        const members = item.children.slice(i, i + length);
        const label = firstOf(members[0]) + " … " + lastOf(members[members.length - 1]);
        divided.push(this.groupOf(item, label, members));
      }
      item.children = divided;
    }
  }

  groupOf(parent, label, members) {
    const group = { kind: "group", label, key: parent.key + "{" + label + "}", parent, node: -1 };
    Object.assign(group, { depth: 0, children: members, size: 0, lookups: 0, losses: 0, constants: 0, idle: 0, edges: null });
    for (const member of members) member.parent = group;
    return group;
  }

  count(item) {
    item.depth = item.parent ? item.parent.depth + 1 : 0;
    if (item.node >= 0) {
      item.size = 1;
      item.lookups = this.model.lookups.get(item.node) || 0;
      item.losses = this.model.isLoss(item.node) ? 1 : 0;
      item.idle = this.model.isIdle(item.node) ? 1 : 0;
      item.constants = !item.idle && this.model.isConstant(item.node) ? 1 : 0;
      return;
    }
    item.turns = [0, 0, 0, 0, 0]; // How many nodes have their turn in a step at each place; none at 0.
    for (const child of item.children) {
      this.count(child);
      const turn = child.node < 0 ? null : this.model.turn(child.node);
      if (turn !== null) item.turns[turn]++;
      if (child.node < 0) for (let i = 0; i < item.turns.length; i++) item.turns[i] += child.turns[i];
      item.size += child.size;
      item.lookups += child.lookups;
      item.losses += child.losses;
      item.constants += child.constants;
      item.idle += child.idle;
    }
  }

  /** Gives each edge to the innermost scope that both its ends are in. */
  addEdges() {
    const edges = this.model.edges();
    for (let i = 0; i < edges.length; i += 2) {
      const [source, reader] = [this.itemOf[edges[i]], this.itemOf[edges[i + 1]]];
      if (!source) continue;
      const above = common(source, reader);
      if (above.edges === null) above.edges = [];
      above.edges.push(edges[i], edges[i + 1]);
    }
  }
}

/** Items whose labels differ in numbers only, by these numbers. */
function sortedByNumbers(items) {
  const numbered = items.map((item) => ({ item, numbers: (item.label.match(/\d+/g) || []).map(Number) }));
  const difference = ({ numbers: one }, { numbers: other }) => {
    const at = one.findIndex((number, place) => number !== other[place]);
    return at < 0 ? one.length - other.length : at < other.length ? one[at] - other[at] : 1;
  };
  return numbered.sort(difference).map(({ item }) => item);
}

function firstOf(item) {
  return item.kind === "group" ? item.label.split(" … ")[0] : item.label;
}

function lastOf(item) {
  return item.kind === "group" ? item.label.split(" … ").pop() : item.label;
}

/** The innermost item that holds both. */
function common(one, other) {
  while (one.depth > other.depth) one = one.parent;
  while (other.depth > one.depth) other = other.parent;
  while (one !== other) {
    one = one.parent;
    other = other.parent;
  }
  return one.node >= 0 ? one.parent : one;
}

/** The part of an item that another is in. */
function partOf(item, inner) {
  let part = inner;
  while (part && part.parent !== item) part = part.parent;
  return part;
}

/** The nodes in an item. */
function nodesIn(item, found = []) {
  if (item.node >= 0) found.push(item.node);
  else for (const child of item.children) nodesIn(child, found);
  return found;
}
