// Tables that are sorted by their headings and filtered by a field.

const ROWS_AT_ONCE = 300;

/**
 * @param columns `{ title, value(row), show(row), number }`: what sorts, and what is shown if that
 *   is not the text of it.
 * @param rows Any objects.
 * @param options `caption`, and with `filter` a field above the table; `choices`: pairs of a name
 *   and which rows it has.
 */
function sortableTable(columns, rows, options = {}) {
  const state = { column: -1, down: false, text: "", choice: null, most: ROWS_AT_ONCE };
  const body = html("tbody");
  const count = html("span", { class: "faint", role: "status" });
  const more = html("button", { type: "button", onclick: () => { state.most += 10 * ROWS_AT_ONCE; update(); } }, "Show more");
  const texts = new Map();
  const textOf = (row) => {
    if (!texts.has(row)) texts.set(row, columns.map((column) => String(column.text ? column.text(row) : column.value(row) ?? "")).join(" ").toLowerCase());
    return texts.get(row);
  };
  const headings = columns.map((column, number) => {
    const button = html("button", { type: "button", class: "sort", onclick: () => sortBy(number) }, column.title);
    return html("th", { scope: "col", "aria-sort": "none", class: column.number ? "number" : "" }, button);
  });
  function sortBy(number) {
    if (state.column !== number) {
      state.column = number;
      state.down = Boolean(columns[number].number);
    } else state.down = !state.down;
    headings.forEach((heading, place) => heading.setAttribute("aria-sort", place !== number ? "none" : state.down ? "descending" : "ascending"));
    update();
  }
  function chosen() {
    const words = state.text.toLowerCase().split(/\s+/).filter(Boolean);
    const found = rows.filter((row) => (!state.choice || state.choice(row)) && words.every((word) => textOf(row).includes(word)));
    if (state.column < 0) return found;
    const { value } = columns[state.column];
    const sign = state.down ? -1 : 1;
    return found.sort((one, other) => sign * compared(value(one), value(other)));
  }
  function update() {
    const found = chosen();
    body.replaceChildren(
      ...found.slice(0, state.most).map((row) =>
        html("tr", {}, columns.map((column) => html("td", { class: column.number ? "number" : "" }, column.show ? column.show(row) : column.value(row) ?? ""))),
      ),
    );
    count.textContent = found.length === rows.length ? counted(rows.length, options.noun || "row") : grouped(found.length) + " of " + counted(rows.length, options.noun || "row");
    more.hidden = found.length <= state.most;
  }
  const field = html("input", { type: "search", placeholder: "Filter", "aria-label": "Filter " + (options.caption || "rows"), oninput: (event) => { state.text = event.target.value; update(); } });
  const choices = (options.choices || []).filter(([, has]) => rows.some(has));
  const select = html("select", { "aria-label": "Which rows", onchange: (event) => { state.choice = (choices[event.target.value] || [])[1] || null; update(); } },
    html("option", { value: -1 }, "all"),
    choices.map(([name, has], number) => html("option", { value: number }, name + " (" + rows.filter(has).length + ")")));
  update();
  return html(
    "div",
    { class: "table" },
    options.filter ? html("div", { class: "tools" }, field, choices.length > 1 ? select : null, count) : null,
    html("div", { class: "scroll" }, html("table", {}, options.caption ? html("caption", {}, options.caption) : null, html("thead", {}, html("tr", {}, headings)), body)),
    more,
  );
}

function compared(one, other) {
  if (typeof one === "number" || typeof other === "number") return (one ?? -1) - (other ?? -1);
  return String(one ?? "").localeCompare(String(other ?? ""), "en", { numeric: true });
}
