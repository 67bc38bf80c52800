// Ways through a graph: from the input to a node, and from there to the loss.

/** Walks from a node along `next` to the nearest node that `isEnd`; the nodes on the way, or []. */
function nearest(start, next, isEnd, length) {
  const cameFrom = new Int32Array(length).fill(-1);
  cameFrom[start] = start;
  let front = [start];
  while (front.length) {
    const following = [];
    for (const node of front) {
      if (isEnd(node)) return wayTo(node, start, cameFrom);
      for (const other of next(node)) {
        if (cameFrom[other] >= 0) continue;
        cameFrom[other] = node;
        following.push(other);
      }
    }
    front = following;
  }
  return [];
}

function wayTo(node, start, cameFrom) {
  const way = [node];
  while (way[way.length - 1] !== start) way.push(cameFrom[way[way.length - 1]]);
  return way;
}

/**
 * A shortest way from the input through a node to the loss.
 *
 * @returns The nodes in order, and whether the way begins at an input and ends at a loss.
 */
function pathThrough(model, node) {
  const inputs = new Set(model.data.sources);
  const losses = new Set(model.data.losses);
  const fromInput = nearest(node, (one) => model.sources(one), (one) => inputs.has(one), model.length);
  const back = nearest(node, (one) => model.readers(one), (one) => losses.has(one), model.length);
  const toLoss = back.reverse();
  return {
    nodes: [...fromInput, ...(fromInput.length ? toLoss.slice(1) : toLoss.length ? toLoss : [node])],
    fromInput: fromInput.length > 0,
    toLoss: toLoss.length > 0,
  };
}
