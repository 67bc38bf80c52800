// The panel beside a graph: all that is known of what is selected.

const MOST_LISTED = 40;

/** What the panel shows of an item; `choose` gets a node to go to. */
function detailsOf(drawing, item, path, choose) {
  if (!item) return hintsOf();
  return item.node >= 0 ? ofNode(drawing.model, item.node, path, choose) : ofScope(drawing, item);
}

function hintsOf() {
  const keys = [
    ["click", "select"],
    ["double click, Enter", "open or close a scope"],
    ["drag, wheel", "move, zoom"],
    ["arrow keys", "go to the next one"],
    ["+ −, 0", "zoom, show all"],
    ["/", "search; the way from the input to the loss is marked"],
  ];
  return [
    html("h3", {}, "Nothing is selected"),
    html("dl", { class: "keys" }, keys.map(([key, what]) => [html("dt", {}, key), html("dd", {}, what)])),
    html("p", { class: "faint" }, "Boxes with corners are name scopes, round ones are nodes. Numbered siblings are drawn as one group (×). A dashed edge goes through a stage's buffer."),
  ];
}

function ofNode(model, node, path, choose) {
  const { data } = model;
  const region = REGIONS.find(([category]) => category === "r-" + model.region(node));
  const change = (CHANGES[model.label] || []).find(([category]) => category === "c-" + model.change(node));
  const rows = [
    ["op", model.op(node)],
    ["region", html("span", {}, html("span", { class: "swatch " + region[0] }), region[1] + ": " + region[2])],
    change && ["change", html("span", {}, html("span", { class: "swatch " + change[0] }), change[1] + ": " + change[2])],
    ["device", model.device(node) || "none requested"],
    ["output", data.outputs[data.output[node]]],
  ];
  const attributes = data.attributes[data.attribute[node]];
  return [
    html("h3", { class: "name" }, model.name(node)),
    html("dl", {}, rows.filter((row) => row && row[1]).map(([key, what]) => [html("dt", {}, key), html("dd", {}, what)])),
    wayOf(model, node, path, choose),
    listOf("Its work is done by", model.others(node), (other) => nodeButton(model, other, choose)),
    listOf("Inputs", model.inputs(node), ([source, output]) => nodeButton(model, source, choose, output ? ":" + output : "")),
    listOf("Through a buffer from", model.puts(node), (source) => nodeButton(model, source, choose)),
    listOf("From its functions", model.returned(node), (source) => nodeButton(model, source, choose)),
    listOf("Waits for", model.controls(node), (source) => nodeButton(model, source, choose)),
    listOf("Read by", [...model.readers(node)], (reader) => nodeButton(model, reader, choose)),
    attributes && html("details", {}, html("summary", {}, "Attributes"), html("pre", {}, attributes.split("\n").map((line) => [line, html("br")]))),
  ];
}

function wayOf(model, node, path, choose) {
  if (!path) return null;
  const ends = path.fromInput && path.toLoss ? "from the input to the loss" : path.fromInput ? "from the input" : path.toLoss ? "to the loss" : "";
  if (!ends) return html("p", { class: "faint" }, "No input or loss is connected with it.");
  const steps = path.nodes.map((one) => html("li", { class: one === node ? "here" : "" }, nodeButton(model, one, choose)));
  return html("details", { class: "way" }, html("summary", {}, "A way " + ends + ", " + counted(path.nodes.length, "node")), html("ol", {}, steps));
}

function listOf(title, all, show) {
  if (!all.length) return null;
  const rows = all.slice(0, MOST_LISTED).map((one) => html("li", {}, show(one)));
  if (all.length > MOST_LISTED) rows.push(html("li", { class: "faint" }, "and " + grouped(all.length - MOST_LISTED) + " more"));
  return html("section", {}, html("h4", {}, title + " ", html("span", { class: "faint" }, grouped(all.length))), html("ul", {}, rows));
}

function nodeButton(model, node, choose, after = "") {
  const button = { type: "button", class: "link", title: model.name(node) + after, onclick: () => choose(node) };
  return html("button", button, html("span", { class: "swatch r-" + model.region(node) }), html("span", {}, ending(model.name(node), 64) + after, html("span", { class: "faint" }, " " + model.op(node))));
}

function ofScope(drawing, item) {
  const { model, view } = drawing;
  const ops = new Map();
  for (const node of nodesIn(item)) ops.set(model.op(node), (ops.get(model.op(node)) || 0) + 1);
  const most = [...ops].sort((one, other) => other[1] - one[1]).slice(0, 10);
  const meaning = new Map(view.colours.legend(model).map(([category, name]) => [category, name]));
  const isOpen = drawing.layout.isOpen(item);
  return [
    html("h3", { class: "name" }, item.kind === "scope" ? item.key : item.label),
    html("p", {}, counted(item.size, "node"), item.kind === "group" ? ", grouped by name" : ""),
    html("p", {}, html("button", { type: "button", onclick: () => drawing.toggle(item) }, isOpen ? "Close" : "Open")),
    html("ul", { class: "plain" }, drawing.tally(item).map(([category, count]) => html("li", {}, html("span", { class: "swatch " + category }), (meaning.get(category) || "") + " ", html("span", { class: "faint" }, grouped(count))))),
    html("h4", {}, "Ops"),
    html("table", { class: "small" }, most.map(([op, count]) => html("tr", {}, html("td", {}, op), html("td", { class: "number" }, grouped(count))))),
    ops.size > most.length ? html("p", { class: "faint" }, "and " + counted(ops.size - most.length, "other op")) : null,
  ];
}
