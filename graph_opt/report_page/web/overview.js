// The first part of the page: how much of what there is, and what became of it.

function overviewPanel(content, goTo) {
  const { overview } = content;
  return html(
    "div",
    { class: "overview" },
    figures(content),
    regionsOf(overview, content.called),
    costTable(content.cost),
    leftTable(overview.left, goTo),
    notesOf(overview.notes),
    html("div", { class: "columns" }, html("div", {}, opsTable(overview), devicesTable(overview)), tablesTable(content.tables, goTo)),
    overview.stages.map((stage) => boundaryTable(stage, goTo)),
  );
}

function figures({ overview, tables, called }) {
  const { lookups, nodes, stages } = overview;
  const labels = Object.keys(nodes);
  const known = tables.filter((table) => table.bytes !== null);
  const total = known.reduce((sum, table) => sum + table.bytes, 0);
  const tensors = stages.reduce((sum, stage) => sum + stage.tensors, 0);
  return html(
    "dl",
    { class: "figures" },
    figure("nodes", labels.map((label) => grouped(nodes[label])).join(" → "), [labels.length > 1 && "before → after", called.nodes && grouped(called.nodes) + " more in functions"].filter(Boolean).join(", ")),
    figure("lookups", grouped(lookups.found + lookups.elsewhere), lookupsRemark(lookups)),
    figure("run ahead", grouped(lookups.ahead), lookups.ahead ? "behind " + counted(stages.length, "stage") : "no lookup leaves the step"),
    figure("cross each step", counted(tensors, "tensor"), stages.map((stage) => stage.crossing).join("; ")),
    figure("tables", grouped(new Set(tables.map((table) => table.name.replace(/\/part_\d+$/, ""))).size), known.length ? bytesText(total) + (known.length < tables.length ? " and more of unknown size" : "") : ""),
  );
}

function lookupsRemark({ fused, groups, elsewhere }) {
  const parts = [fused ? grouped(fused) + " fused into " + counted(groups, "op") : "none fused"];
  if (elsewhere) parts.push(grouped(elsewhere) + " where no pass can reach");
  return parts.join(", ");
}

function figure(name, value, remark) {
  return html("div", {}, html("dt", {}, name), html("dd", { class: "value" }, value), html("dd", { class: "faint" }, remark));
}

/** The three regions with what goes from one to the next. */
function regionsOf(overview, called) {
  const regions = overview.regions[overview.regions.length - 1];
  const crossing = overview.stages.map((stage) => counted(stage.tensors, "tensor") + ": " + stage.crossing);
  const batches = overview.stages.map((stage) => stage.source + (stage.inferred ? " (stage inserted)" : ""));
  const box = (category, name, count, remark) =>
    html("div", { class: "region " + category }, html("strong", {}, name), html("span", {}, counted(count || 0, "node")), html("span", { class: "faint" }, remark));
  const arrow = (lines) => html("div", { class: "flow" }, lines.slice(0, 3).map((line) => html("span", {}, line)), html("span", { class: "line", "aria-hidden": "true" }));
  return html(
    "section",
    { "aria-label": "Regions" },
    html("h2", {}, "Regions"),
    html(
      "div",
      { class: "regions" },
      box("r-i", "io", regions.io, "reads and batches"),
      arrow(batches.length ? batches : ["batches"]),
      box("r-p", "prefetch", regions.prefetch, regions.prefetch ? "runs ahead of the step" : "nothing runs ahead"),
      arrow(crossing.length ? crossing : ["nothing"]),
      box("r-m", "main", regions.main, "runs in session.run for a batch"),
    ),
    html("p", { class: "faint" }, counted(regions.none || 0, "node") + " that no batch reaches: variables, initializers, saving" + (regions.idle ? "; " + counted(regions.idle, "node") + " kept for their names, whose work others do" : "") + "."),
    called.nodes ? html("p", { class: "faint" }, "Functions have nodes of their own: " + counted(called.nodes, "node") + " in " + counted(called.calls, "call") + (called.iterated ? ", " + grouped(called.iterated) + " of them in loops" : "") + ". The graph shows them in scopes of the calls.") : null,
  );
}

/** What a step costs before and after, as graph-opt plan tells it. */
function costTable(cost) {
  if (!cost) return null;
  const columns = cost.header.map((title, place) => ({ title, value: (row) => row[place], number: place > 0 }));
  return html(
    "section",
    {},
    html("h2", {}, "Cost of a step"),
    html("p", { class: "faint" }, cost.step),
    sortableTable(columns, cost.rows, { caption: "cost of a step" }),
    html("ul", { class: "notes" }, cost.notes.map((note) => html("li", { class: "faint" }, note))),
  );
}

function leftTable(left, goTo) {
  if (!left.length) return null;
  return html("section", {}, html("h2", {}, "Left as it is"), sortableTable([
    { title: "code", value: (row) => row.code, show: (row) => html("code", {}, row.code) },
    { title: "count", value: (row) => row.count, number: true },
    { title: "example", value: (row) => row.example, show: (row) => html("span", { class: "name" }, row.example) },
    { title: "why", value: (row) => row.reason },
    { title: "what to do", value: (row) => row.remedy },
  ], left));
}

function notesOf(notes) {
  if (!notes.length) return null;
  return html("section", {}, html("h2", {}, "Notes"), html("ul", { class: "notes" }, notes.map(([kind, text]) => html("li", { class: kind === "warning" || kind === "not done" ? "warning" : "" }, html("strong", {}, kind), " ", text))));
}

function countColumns(labels, rows) {
  const most = Math.max(1, ...rows.map((row) => Math.max(...row.slice(1))));
  return labels.map((label, place) => ({
    title: label === "graph" ? "nodes" : label,
    value: (row) => row[place + 1],
    show: (row) => bar(row[place + 1], most),
    number: true,
  }));
}

function bar(count, most) {
  const length = svg("rect", { class: "bar", width: (60 * count) / most, height: 8, rx: 1 });
  return html("span", { class: "counted" }, svg("svg", { width: 60, height: 8, "aria-hidden": "true" }, length), html("span", {}, grouped(count)));
}

function opsTable(overview) {
  const labels = Object.keys(overview.nodes);
  const columns = [{ title: "op", value: (row) => row[0] }, ...countColumns(labels, overview.ops)];
  if (labels.length > 1) columns.push({ title: "±", value: (row) => row[2] - row[1], show: (row) => signed(row[2] - row[1]), number: true });
  return html("section", { class: "short" }, html("h2", {}, "Ops"), sortableTable(columns, overview.ops, { filter: true, caption: "ops", noun: "op" }));
}

function signed(number) {
  return number > 0 ? "+" + grouped(number) : number < 0 ? "−" + grouped(-number) : "";
}

function devicesTable(overview) {
  const columns = [
    { title: "device", value: (row) => row[0], show: (row) => row[0] || html("span", { class: "faint" }, "none requested") },
    ...countColumns(Object.keys(overview.nodes), overview.devices),
  ];
  return html("section", { class: "short" }, html("h2", {}, "Devices"), sortableTable(columns, overview.devices, { caption: "devices" }));
}

function tablesTable(tables, goTo) {
  if (!tables.length) return null;
  const names = distinctEndings(tables.map((row) => row.name), MOST_NAME);
  const columns = [
    { title: "table", value: (row) => row.name, show: (row) => html("button", { type: "button", class: "link", title: row.name, onclick: () => goTo(row.name) }, names.get(row.name)) },
    { title: "shape", value: (row) => row.shape },
    { title: "dtype", value: (row) => row.dtype },
    { title: "size", value: (row) => row.bytes, show: (row) => bytesText(row.bytes), number: true },
    { title: "lookups", value: (row) => row.lookups, number: true },
    { title: "device", value: (row) => row.device },
  ].filter((column) => hasValues(column, tables));
  return html("section", { class: "short" }, html("h2", {}, "Tables"), sortableTable(columns, tables, { filter: true, caption: "tables", noun: "table" }));
}

function boundaryTable(stage, goTo) {
  const columns = ["boundary tensor", "dtype", "shape", "each step"].map((title, place) => ({
    title,
    value: (row) => row[place],
    show: place ? undefined : (row) => html("button", { type: "button", class: "link", onclick: () => goTo(row[0].replace(/:\d+$/, "")) }, row[0]),
  }));
  const table = sortableTable(columns, stage.boundary, { filter: true, caption: "boundary tensors", noun: "tensor" });
  return html("details", { class: "boundary" }, html("summary", {}, html("h2", {}, "What crosses from " + stage.name), html("span", { class: "faint" }, counted(stage.tensors, "tensor") + ", " + stage.crossing + " each step")), table);
}
