// The first part of the page: how much of what there is, and what became of it.

const WORTH_TELLING = 0.1; // Shorter waits are no bottleneck.

function overviewPanel(content, goTo) {
  const { overview } = content;
  return html(
    "div",
    { class: "overview" },
    html("div", { class: "cards" }, doneCard(overview), gainedCard(content), leftCard(overview), toDoCard(content, goTo)),
    regionsOf(overview, content.called),
    costTable(content.cost),
    leftTable(overview.left, goTo),
    notesOf(overview.notes),
    html("div", { class: "columns" }, html("div", {}, opsTable(overview), devicesTable(overview)), tablesTable(content.tables, goTo)),
    overview.stages.map((stage) => boundaryTable(stage, goTo)),
  );
}

function card(title, ...children) {
  const shown = children.flat(9).filter(Boolean);
  return html("section", { class: "card", "aria-label": title }, html("h2", {}, title), shown.length ? shown : html("p", { class: "faint" }, "nothing"));
}

function figure(value, what, remark) {
  return html("div", { class: "figure" }, html("span", { class: "value" }, value), " ", what, remark ? html("span", { class: "faint" }, remark) : null);
}

function doneCard({ lookups, stages, notes }) {
  const all = lookups.found + lookups.elsewhere;
  const of = (count) => grouped(count) + " of " + grouped(all);
  return card(
    "What was done",
    all ? fusedFigure(lookups, of) : null,
    all ? figure(of(lookups.ahead), "run ahead of the step", lookups.ahead ? "behind " + counted(stages.length, "stage") : "") : null,
    notes.filter(([kind]) => kind === "changed").map(([, text]) => html("p", {}, text)),
    all || notes.length ? null : html("p", { class: "faint" }, "no lookup was found, nothing was changed"),
  );
}

/** Lookups that share ops, and those in an op of their own, as the title of the page counts them. */
function fusedFigure({ fused, groups, alone }, of) {
  const own = alone === 1 ? "in an op of its own" : "in an op each";
  if (alone && alone === fused) return figure(of(alone), "lookups " + own, "");
  const remark = "into " + counted(groups - alone, "op") + (alone ? ", " + grouped(alone) + " " + own : "");
  return figure(of(fused - alone), "lookups fused", fused ? remark : "");
}

/** Lines of the plan of a step that a rewrite makes smaller. */
function savedLines(cost) {
  return cost.rows.filter((row) => row[3] !== "-").slice(0, 3);
}

function gainedCard({ overview, called, cost, timeline }) {
  const { step, nodes } = overview;
  const compares = Object.keys(nodes).length > 1;
  const remarks = [step.ahead && grouped(step.ahead) + " run ahead of it", called.nodes && grouped(called.nodes) + " more in functions", grouped(Object.values(nodes).pop()) + " in the graph"];
  const pace = timeline && paceOf(timeline);
  const left = pace && [pace.warmUp && counted(pace.warmUp, "step") + " of warm-up", pace.traced && grouped(pace.traced) + " traced"].filter(Boolean).join(" and ");
  return card(
    "What was gained",
    figure(compares ? grouped(step.before) + " → " + grouped(step.after) : grouped(step.after), "nodes in a step", remarks.filter(Boolean).join(", ")),
    pace && pace.perSecond ? figure(pace.perSecond.toPrecision(3), "steps/s measured", left ? "without " + left : "") : null,
    cost && compares ? savedLines(cost).map((row) => figure(row[1] + " → " + row[2], row[0].trim(), "by the plan of a step")) : null,
  );
}

function leftCard({ lookups, left, notes }) {
  const all = lookups.found + lookups.elsewhere;
  const inMain = all - lookups.ahead;
  return card(
    "What was left",
    all > lookups.fused ? figure(grouped(all - lookups.fused), plural(all - lookups.fused, "lookup") + " not fused", lookups.elsewhere ? grouped(lookups.elsewhere) + " where no pass can reach" : "") : null,
    inMain ? figure(grouped(inMain), plural(inMain, "lookup") + " in the step", "") : null,
    left.slice(0, 4).map((row) => html("p", {}, html("code", {}, row.code), " ×" + grouped(row.count))),
    left.length > 4 ? html("p", { class: "faint" }, "and " + counted(left.length - 4, "other reason") + " below") : null,
    notes.filter(([kind]) => kind === "not done").map(([, text]) => html("p", {}, text)),
  );
}

function toDoCard({ overview, timeline }, goTo) {
  const told = timeline && bottleneckOf(timeline);
  const remedies = overview.remedies.map(({ remedy, count, code, example }) =>
    html("li", {}, remedy, " ", html("span", { class: "faint" }, code + " ×" + grouped(count)), example ? html("span", { class: "faint" }, ", such as ", html("button", { type: "button", class: "link", title: example, onclick: () => goTo(example) }, ending(example, 44))) : null));
  const items = [...(told ? [html("li", { class: "waits" }, told)] : []), ...remedies].slice(0, 3);
  return card("What to do", items.length ? html("ol", {}, items) : html("p", { class: "faint" }, "nothing: no reason is known that holds a lookup back"));
}

/** Who waits for whom in a run, and what helps; docs/choose-options.md says the same. */
function bottleneckOf(timeline) {
  const lanesIn = (region) => timeline.lanes.filter((lane) => lane.region === region);
  const share = (region, name) => {
    const use = useOfAll(lanesIn(region));
    return use.known ? use[name] / use.known : null;
  };
  const percent = (part) => (100 * part).toFixed(0) + " %";
  const waits = share("main", "batch");
  if (waits === null || lanesIn("main").length === timeline.lanes.length) return "";
  const between = share("main", "between");
  if (waits < WORTH_TELLING && between > 2 * WORTH_TELLING) return "Main hardly waits for batches (" + percent(waits) + " of its time), and spends " + percent(between) + " between steps: look at what the script and its hooks do there.";
  if (waits < WORTH_TELLING) return "Main hardly waits for batches (" + percent(waits) + " of its time): its layers are the bottleneck, and more threads for lookups would not help.";
  const starved = share("prefetch", "batch");
  if (starved !== null && starved > share("prefetch", "works")) return "The input is the bottleneck: main waits for a batch " + percent(waits) + " of the time, and the lookups' stage " + percent(starved) + ". Give the dataset more threads, or set do_smart_stage if the graph parses.";
  if (!lanesIn("prefetch").length) return "The input is the bottleneck: main waits for a batch " + percent(waits) + " of the time. Give the dataset more threads.";
  return "Main waits " + percent(waits) + " of the time for lookups: set threads_num: -1 and capacity: -1, which find the number of threads.";
}

/** The three regions with what goes from one to the next. */
function regionsOf(overview, called) {
  const regions = overview.regions[overview.regions.length - 1];
  const crossing = overview.stages.map((stage) => counted(stage.tensors, "tensor") + ": " + stage.crossing);
  const batches = overview.stages.map((stage) => stage.source + (stage.inferred ? " (stage inserted)" : ""));
  const box = (category, name, count, remark) =>
    html("div", { class: "region " + category }, html("strong", {}, name), html("span", {}, counted(count || 0, "node")), html("span", { class: "faint" }, remark));
  const broken = (line) => line.split(/(?<=[\/_])/).flatMap((part, place) => (place ? [html("wbr"), part] : [part]));
  const arrow = (lines) => html("div", { class: "flow" }, lines.slice(0, 3).map((line) => html("span", {}, broken(line))), html("span", { class: "line", "aria-hidden": "true" }));
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

/** What the first screen does not say. */
function notesOf(notes) {
  const shown = notes.filter(([kind]) => kind !== "changed");
  if (!shown.length) return null;
  return html("section", {}, html("h2", {}, "Notes"), html("ul", { class: "notes" }, shown.map(([kind, text]) => html("li", { class: kind === "warning" || kind === "not done" ? "warning" : "" }, html("strong", {}, kind), " ", text))));
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
  return html("section", { class: "short" }, html("h2", {}, "Tables ", html("span", { class: "faint" }, sizeOf(tables))), sortableTable(columns, tables, { filter: true, caption: "tables", noun: "table" }));
}

/** How much all tables take, as far as their sizes are known. */
function sizeOf(tables) {
  const known = tables.filter((table) => table.bytes !== null);
  const total = known.reduce((sum, table) => sum + table.bytes, 0);
  return known.length ? bytesText(total) + (known.length < tables.length ? " and more of unknown size" : "") : "";
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
