// The search field: nodes whose name has all the words, or whose op is the one after `op:`.

const MOST_FOUND = 60;

/**
 * The first nodes that match, and how many there are: those whose last name, or scope, is what was
 * written come first, lookups before others, short names before long ones.
 */
function search(model, text) {
  const words = text.trim().toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return { nodes: [], total: 0 };
  const matches = [];
  for (const node of model.nodes()) {
    const name = model.name(node).toLowerCase();
    const op = model.op(node).toLowerCase();
    const isMatch = (word) =>
      word.startsWith("op:") ? op.startsWith(word.slice(3)) : name.includes(word) || op === word;
    if (words.every(isMatch)) matches.push(node);
  }
  const whole = words.length === 1 && !words[0].startsWith("op:") ? words[0] : null;
  const isNamed = (node) => whole !== null && ("/" + model.name(node).toLowerCase() + "/").includes("/" + whole + "/");
  const rank = new Map(matches.map((node) => [node, rankOf(model, node, isNamed(node))]));
  const length = (node) => model.data.leaf[node].length + model.scopePath(model.data.scope[node]).length;
  matches.sort((one, other) => rank.get(one) - rank.get(other) || length(one) - length(other) || one - other);
  return { nodes: matches.slice(0, MOST_FOUND), total: matches.length };
}

/** Where a node stands among those that are found; lookups are sought most. */
function rankOf(model, node, isNamed) {
  const kind = model.isLookup(node) ? 0 : model.isConstant(node) ? 3 : model.isIdle(node) ? 2 : 1;
  return kind + (isNamed ? 0 : 4);
}

/** A combobox of nodes; `choose` gets the node that was chosen. */
function searchField(models, choose) {
  const list = html("ul", { role: "listbox", id: "found", class: "found", hidden: true, "aria-label": "Found nodes" });
  const field = html("input", {
    type: "search",
    id: "search",
    placeholder: "Search nodes by name, or op:GatherV2   ( / )",
    "aria-label": "Search nodes",
    role: "combobox",
    "aria-controls": "found",
    "aria-expanded": "false",
    autocomplete: "off",
    spellcheck: "false",
  });
  let options = [];
  let at = -1;
  const close = () => {
    list.hidden = true;
    field.setAttribute("aria-expanded", "false");
    field.removeAttribute("aria-activedescendant");
  };
  const mark = (number) => {
    if (options[at]) options[at].element.setAttribute("aria-selected", "false");
    at = number;
    if (!options[at]) return;
    options[at].element.setAttribute("aria-selected", "true");
    options[at].element.scrollIntoView({ block: "nearest" });
    field.setAttribute("aria-activedescendant", options[at].element.id);
  };
  const take = (number) => {
    if (!options[number]) return;
    close();
    choose(options[number].node);
  };
  const update = () => {
    const model = models();
    const found = search(model, field.value);
    list.replaceChildren();
    options = found.nodes.map((node, number) => {
      const element = html(
        "li",
        { role: "option", id: "found-" + number, "aria-selected": "false", onmousedown: (event) => { event.preventDefault(); take(number); } },
        html("span", { class: "swatch r-" + model.region(node) }),
        html("span", { class: "found-name" }, ending(model.name(node), 90)),
        html("span", { class: "faint nowrap" }, (model.isLookup(node) ? LOOKUP + " lookup, " : "") + model.op(node)),
      );
      list.append(element);
      return { node, element };
    });
    const more = found.total - found.nodes.length;
    if (found.total) list.append(html("li", { class: "faint", role: "presentation" }, (more > 0 ? "and " + grouped(more) + " more" : counted(found.total, "node")) + (model.data.graphs.length > 1 ? " in the graph " + model.label : "")));
    if (!found.total && field.value.trim()) list.append(html("li", { class: "faint", role: "presentation" }, "no node has this name or op"));
    list.hidden = !field.value.trim();
    field.setAttribute("aria-expanded", String(!list.hidden));
    announce(field.value.trim() ? counted(found.total, "node") + " found" : "");
    mark(options.length ? 0 : -1);
  };
  field.addEventListener("input", update);
  field.addEventListener("focus", update);
  field.addEventListener("blur", close);
  field.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      const step = event.key === "ArrowDown" ? 1 : options.length - 1;
      if (options.length) mark((at + step) % options.length);
    } else if (event.key === "Enter") {
      take(at);
    } else if (event.key === "Escape") {
      close();
    }
  });
  return html("div", { class: "search" }, field, list);
}
