// What a colour stands for: the region of a node, what a rewrite did to it, or its device.

const REGIONS = [
  ["r-i", "io", "reading and batching"],
  ["r-p", "prefetch", "runs ahead of the step"],
  ["r-m", "main", "runs in session.run for a batch"],
  ["r-n", "no batch", "variables, initializers, saving"],
  ["r-x", "idle", "kept for its name, others do its work"],
];
const CHANGES = {
  before: [
    ["c-m", "moved", "runs ahead"],
    ["c-f", "fused", "a fused op does its work"],
    ["c-r", "other inputs", "reads what replaces others"],
    ["c-d", "lost", "is not in the other graph"],
    ["c-k", "kept", "as it was"],
  ],
  after: [
    ["c-c", "copy", "of a node that moved"],
    ["c-l", "fused op", "does the work of several nodes"],
    ["c-a", "added", "by the rewrite"],
    ["c-r", "other inputs", "reads what replaces others"],
    ["c-x", "idle", "kept for its name, others do its work"],
    ["c-k", "kept", "as it was"],
  ],
};
const MOST_DEVICES = 8;
// One string for all nodes of a colour: a page counts those of 100,000 nodes.
const REGION_CLASSES = classes(REGIONS);
const CHANGE_CLASSES = classes([...CHANGES.before, ...CHANGES.after]);
const DEVICE_CLASSES = [...new Array(MOST_DEVICES).keys()].map((rank) => "d-" + rank);

/** Letter to class. */
function classes(rows) {
  return Object.fromEntries(rows.map(([category]) => [category.slice(2), category]));
}

class Colours {
  constructor(data) {
    this.data = data;
    this.mode = "region";
    this.ranks = data.devices.map((device, number) => number);
    const counts = new Array(data.devices.length).fill(0);
    for (const device of data.device) counts[device]++;
    const order = [...this.ranks].sort((one, other) => counts[other] - counts[one]);
    order.forEach((device, rank) => (this.ranks[device] = Math.min(rank, MOST_DEVICES - 1)));
    this.devices = order.slice(0, MOST_DEVICES);
  }

  of(model, node) {
    if (this.mode === "region") return REGION_CLASSES[model.region(node)];
    if (this.mode === "change") return CHANGE_CLASSES[model.change(node)];
    return DEVICE_CLASSES[this.ranks[this.data.device[node]]];
  }

  /** Class, name and meaning of each colour. */
  legend(model) {
    if (this.mode === "region") return REGIONS;
    if (this.mode === "change") return CHANGES[model.label] || CHANGES.after;
    return this.devices.map((device, rank) => [
      "d-" + rank,
      rank === MOST_DEVICES - 1 ? "other devices" : this.data.devices[device] || "no device requested",
      "",
    ]);
  }
}
