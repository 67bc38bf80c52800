// The table of lookups: where each one is, and what became of it.

const MOST_NAME = 34;

function lookupsPanel(content, goTo) {
  const rows = content.lookups;
  const hasGroups = rows.some((row) => row.group);
  const hasTraining = rows.some((row) => row.gradient !== "none");
  const lookupNames = distinctEndings(rows.map((row) => row.name), MOST_NAME);
  const tableNames = distinctEndings(rows.flatMap((row) => row.tables), MOST_NAME);
  const columns = [
    { title: "lookup", value: (row) => row.name, show: (row) => lookupName(row, lookupNames, goTo) },
    { title: "table", value: (row) => row.tables[0] || "", text: (row) => row.tables.join(" "), show: (row) => tableName(row, tableNames, goTo) },
    { title: "shape", value: (row) => row.shape, show: (row) => html("span", { class: "nowrap" }, row.shape) },
    { title: "runs in", value: (row) => row.stage || "main", show: (row) => html("span", { class: "nowrap" }, html("span", { class: "swatch " + (row.stage ? "r-p" : "r-m") }), row.stage || "main") },
    hasGroups && { title: "fused into", value: (row) => row.group, show: (row) => nodeLink(row.group, row.group.replace(/^group_embedding\//, ""), goTo) },
    { title: "why not", value: (row) => row.reasons.map((reason) => reason.code).join(" "), show: (row) => reasonsOf(row.reasons) },
    { title: "ids from", value: (row) => row.ids, show: (row) => html("span", { class: "nowrap", title: row.ids }, shortened(row.ids, 40)) },
    { title: "device", value: (row) => row.device },
    { title: "API", value: (row) => row.api, show: (row) => html("span", { title: row.api }, row.api.replace(/^tf\.(nn\.)?/, "")) },
    { title: "combiner", value: (row) => row.combiner },
    hasTraining && { title: "gradient", value: (row) => row.gradient },
    hasTraining && { title: "update", value: (row) => row.update },
  ].filter((column) => column && hasValues(column, rows));
  if (!rows.length) return html("p", { class: "empty" }, "No embedding lookup was found in this graph: nothing in it gathers rows of a variable.");
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

function lookupName(row, names, goTo) {
  const text = names.get(row.name) + (row.count > 1 ? " (" + row.count + ")" : "");
  return html("button", { type: "button", class: "link", title: row.name, onclick: () => goTo(row.node) }, text);
}

function nodeLink(name, text, goTo) {
  return name ? html("button", { type: "button", class: "link", title: name, onclick: () => goTo(name) }, shortened(text, 2 * MOST_NAME)) : "";
}

function tableName(row, names, goTo) {
  if (!row.tables.length) return "";
  const more = row.tables.length - 1;
  return html("span", {}, nodeLink(row.tables[0], names.get(row.tables[0]), goTo), more ? html("span", { class: "faint" }, " and " + counted(more, "shard")) : null);
}

/** A line for each code, which opens: a lookup and its update may have the same reason. */
function reasonsOf(reasons) {
  const codes = new Map();
  for (const reason of reasons) codes.set(reason.code, [...(codes.get(reason.code) || []), reason]);
  return [...codes].map(([code, alike]) => {
    const texts = new Set(alike.map((reason) => "at " + reason.node + ": need " + reason.need + ", saw " + reason.saw));
    return html("details", { class: "reason" }, html("summary", {}, html("code", {}, code)), [...texts].map((text) => html("p", {}, text)), alike[0].remedy ? html("p", { class: "faint" }, alike[0].remedy) : null);
  });
}
