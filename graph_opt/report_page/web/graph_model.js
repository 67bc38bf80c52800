// One graph of the page: its nodes are numbers, of which the columns of the content tell all.

const ABSENT = ".";
const FORWARD = 3;
const BACKWARD = 4;
const TURNS = { i: 1, p: 2, m: FORWARD };
const IO_ENDING = "_io"; // As graph_opt names the stage.
const GRADIENTS = /^gradients(_\d+)?$/;

class GraphModel {
  /**
   * @param data The columns of all graphs.
   * @param index Which graph.
   */
  constructor(data, index) {
    this.data = data;
    this.index = index;
    this.label = data.graphs[index].label;
    this.graph = data.graphs[index];
    this.first = data.graphs[0];
    this.length = data.leaf.length;
    this.paths = null;
    this.readersStart = null;
    this.putsOf = new Map();
    this.lookups = this.countedLookups();
    for (const [put, take] of data.buffers) {
      if (!this.has(put) || !this.has(take)) continue;
      this.putsOf.set(take, [...(this.putsOf.get(take) || []), put]);
    }
  }

  /** How many lookups end at a node of this graph, or at what does its work there. */
  countedLookups() {
    const counts = new Map();
    for (const [node, count] of this.data.lookups) {
      const instead = this.others(node).filter((other) => this.has(other));
      const doers = this.has(node) && !(instead.length && this.isIdle(node)) ? [node] : instead.slice(0, 1);
      for (const one of doers) counts.set(one, (counts.get(one) || 0) + count);
    }
    return counts;
  }

  /** Whether an embedding lookup ends at a node, in this graph or in the other. */
  isLookup(node) {
    if (this.lookupEnds === undefined) this.lookupEnds = new Set([...this.data.lookups.map(([end]) => end), ...this.lookups.keys()]);
    return this.lookupEnds.has(node);
  }

  has(node) {
    return this.graph.regions[node] !== ABSENT;
  }

  *nodes() {
    for (let node = 0; node < this.length; node++) if (this.has(node)) yield node;
  }

  scopePath(scope) {
    if (this.paths === null) {
      const { scopeNames, scopeParents } = this.data;
      this.paths = [""];
      for (let i = 1; i < scopeNames.length; i++) {
        const above = this.paths[scopeParents[i]];
        this.paths.push(scopeParents[i] === 0 ? scopeNames[i] : above + "/" + scopeNames[i]);
      }
    }
    return this.paths[scope];
  }

  name(node) {
    const { scope, leaf } = this.data;
    const path = this.scopePath(scope[node]);
    if (leaf[node] === "") return path;
    return scope[node] === 0 ? leaf[node] : path + "/" + leaf[node];
  }

  op(node) {
    return this.data.ops[this.data.op[node]];
  }

  device(node) {
    return this.data.devices[this.data.device[node]];
  }

  /** The region of a node; of one that only the other graph has, its region there. */
  region(node) {
    if (this.has(node)) return this.graph.regions[node];
    return this.data.graphs.map(({ regions }) => regions[node]).find((region) => region !== ABSENT);
  }

  change(node) {
    return this.graph.changes[node];
  }

  isConstant(node) {
    return this.op(node) === "Const";
  }

  /**
   * The scope of the io stage before a stage that runs lookups ahead, for copies of input nodes that
   * have their names from the latter; -1 for all others. They would be drawn behind their own batch.
   */
  ioScope(node) {
    const { scope, scopeNames, scopeParents } = this.data;
    if (this.graph.regions[node] !== "i" || scope[node] === 0) return -1;
    if (this.topScopes === undefined) {
      this.topScopes = new Map();
      for (let i = 1; i < scopeNames.length; i++) if (scopeParents[i] === 0) this.topScopes.set(scopeNames[i], i);
    }
    const top = this.scopePath(scope[node]).split("/")[0];
    return this.topScopes.has(top + IO_ENDING) ? this.topScopes.get(top + IO_ENDING) : -1;
  }

  /** Whether it is what training minimizes. */
  isLoss(node) {
    if (this.losses === undefined) this.losses = new Set(this.data.losses);
    return this.losses.has(node);
  }

  /**
   * When a node runs in a step: io, prefetch, main and then gradients and what they lead to; null
   * if no batch reaches it.
   */
  turn(node) {
    if (this.turns === undefined) this.turns = this.turnsOfAll();
    const turn = this.turns[node];
    return turn === 0 ? null : turn;
  }

  turnsOfAll() {
    const turns = new Uint8Array(this.length);
    const backward = [];
    for (const node of this.nodes()) {
      turns[node] = TURNS[this.region(node)] || 0;
      if (turns[node] === FORWARD && this.isGradient(node)) backward.push(node);
    }
    for (const node of this.putsOf.keys()) {
      if (this.readers(node).some((reader) => turns[reader] === TURNS.p)) turns[node] = TURNS.p;
    }
    for (const node of backward) turns[node] = BACKWARD;
    while (backward.length) {
      for (const reader of this.readers(backward.pop())) {
        if (turns[reader] !== FORWARD) continue;
        turns[reader] = BACKWARD;
        backward.push(reader);
      }
    }
    return turns;
  }

  /** Whether a node is in a scope of `tf.gradients`. */
  isGradient(node) {
    if (this.gradientScopes === undefined) {
      const { scopeNames, scopeParents } = this.data;
      this.gradientScopes = [false];
      for (let i = 1; i < scopeNames.length; i++) this.gradientScopes.push(this.gradientScopes[scopeParents[i]] || GRADIENTS.test(scopeNames[i]));
    }
    return this.gradientScopes[this.data.scope[node]];
  }

  isIdle(node) {
    return this.region(node) === "x";
  }

  /** The nodes that a node reads; -k after one says that it is its output k. */
  encodedInputs(node) {
    const own = this.graph.inputs[node];
    return (own === undefined ? this.first.inputs[node] : own) || [];
  }

  /** Pairs of a node and which of its outputs is read. */
  inputs(node) {
    const found = [];
    for (const number of this.encodedInputs(node)) {
      if (number < 0) found[found.length - 1][1] = -number;
      else found.push([number, 0]);
    }
    return found;
  }

  /** The nodes it waits for without reading them. */
  controls(node) {
    const own = this.graph.inputs[node];
    const from = own === undefined ? this.first : this.graph;
    return from.controls[node] || [];
  }

  /** The nodes that do what a node does in the graph before. */
  others(node) {
    return this.data.instead[node] || [];
  }

  /** The nodes of this graph that stand for one of the other graph, or for an idle one. */
  counterparts(node) {
    const standing = this.data.instead[node] || this.replacedBy(node);
    return standing.filter((other) => this.has(other) && !this.isIdle(other));
  }

  /** The nodes whose work a node does. */
  replacedBy(node) {
    return Object.keys(this.data.instead).filter((key) => this.data.instead[key].includes(node)).map(Number);
  }

  /** The puts that fill the buffer which a node takes from. */
  puts(node) {
    return this.putsOf.get(node) || [];
  }

  /** The nodes in functions that a call gets its results from, or waits for. */
  returned(node) {
    return (this.data.returned[node] || []).filter((source) => this.has(source));
  }

  /** What a node gets its data from, each once: inputs, puts at the other side of a buffer, the functions that it calls. */
  sources(node) {
    const found = [];
    for (const number of this.encodedInputs(node)) if (number >= 0) found.push(number);
    found.push(...this.puts(node), ...this.returned(node));
    const isSmall = found.length < 2 || (found.length === 2 && found[0] !== found[1]);
    return isSmall ? found : [...new Set(found)];
  }

  /** All edges of data: a node, one that reads it, the next node, ... */
  edges() {
    if (this.edgeEnds === undefined) {
      this.edgeEnds = [];
      for (const node of this.nodes()) for (const source of this.sources(node)) this.edgeEnds.push(source, node);
    }
    return this.edgeEnds;
  }

  /** The nodes that get data from a node. */
  readers(node) {
    if (this.readersStart === null) this.indexReaders();
    return this.readersOf.subarray(this.readersStart[node], this.readersStart[node + 1]);
  }

  indexReaders() {
    const counts = new Int32Array(this.length + 1);
    const edges = this.edges();
    for (let i = 0; i < edges.length; i += 2) counts[edges[i] + 1]++;
    for (let i = 0; i < this.length; i++) counts[i + 1] += counts[i];
    this.readersStart = counts;
    this.readersOf = new Int32Array(edges.length / 2);
    const next = counts.slice();
    for (let i = 0; i < edges.length; i += 2) this.readersOf[next[edges[i]]++] = edges[i + 1];
  }
}
