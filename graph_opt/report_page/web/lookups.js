// The table of lookups: where each one is, and what became of it.

function lookupsPanel(content, goTo) {
  const rows = content.lookups;
  const hasGroups = rows.some((row) => row.group);
  const hasTraining = rows.some((row) => row.gradient !== "none");
  const columns = [
    { title: "lookup", value: (row) => row.name, show: (row) => lookupName(row, goTo) },
    { title: "API", value: (row) => row.api, show: (row) => html("span", { title: row.api }, row.api.replace(/^tf\.(nn\.)?/, "")) },
    { title: "table", value: (row) => row.tables[0] || "", text: (row) => row.tables.join(" "), show: (row) => tableName(row, goTo) },
    { title: "shape", value: (row) => row.shape, show: (row) => html("span", { class: "nowrap" }, row.shape) },
    { title: "combiner", value: (row) => row.combiner },
    { title: "device", value: (row) => row.device },
    { title: "ids from", value: (row) => row.ids, show: (row) => html("span", { class: "nowrap", title: row.ids }, shortened(row.ids, 40)) },
    hasGroups && { title: "fused into", value: (row) => row.group, show: (row) => nodeLink(row.group, goTo) },
    hasTraining && { title: "gradient", value: (row) => row.gradient },
    hasTraining && { title: "update", value: (row) => row.update },
    { title: "runs in", value: (row) => row.stage || "main", show: (row) => html("span", { class: "nowrap" }, html("span", { class: "swatch " + (row.stage ? "r-p" : "r-m") }), row.stage || "main") },
    { title: "why not", value: (row) => row.reasons.map((reason) => reason.code).join(" "), show: (row) => reasonsOf(row.reasons) },
  ].filter((column) => column && hasValues(column, rows));
  if (!rows.length) return html("p", { class: "empty" }, "No embedding lookup was found in this graph.");
  return sortableTable(columns, rows, {
    filter: true,
    caption: "lookups",
    noun: "lookup",
    choices: [
      ["fused", (row) => Boolean(row.group)],
      ["not fused", (row) => !row.group],
      ["runs ahead", (row) => Boolean(row.stage)],
      ["in main", (row) => !row.stage],
      ["left with a reason", (row) => row.reasons.length > 0],
    ],
  });
}

/** Whether a column tells anything. */
function hasValues(column, rows) {
  return rows.some((row) => column.value(row));
}

function lookupName(row, goTo) {
  const text = ending(row.name, 34) + (row.count > 1 ? " (" + row.count + ")" : "");
  return html("button", { type: "button", class: "link", title: row.name, onclick: () => goTo(row.node) }, text);
}

function nodeLink(name, goTo) {
  return name ? html("button", { type: "button", class: "link", title: name, onclick: () => goTo(name) }, ending(name, 30)) : "";
}

function tableName(row, goTo) {
  if (!row.tables.length) return "";
  const more = row.tables.length - 1;
  return html("span", {}, nodeLink(row.tables[0], goTo), more ? html("span", { class: "faint" }, " and " + counted(more, "shard")) : null);
}

function reasonsOf(reasons) {
  return reasons.map((reason) =>
    html("details", { class: "reason" }, html("summary", {}, html("code", {}, reason.code)), html("p", {}, "at " + reason.node + ": need " + reason.need + ", saw " + reason.saw), reason.remedy ? html("p", { class: "faint" }, reason.remedy) : null),
  );
}
