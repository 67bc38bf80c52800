// The part of the page with the graph: tools, one drawing or two side by side, and details.

const LEGIBLE = 0.8;

class GraphPanel {
  constructor(content) {
    this.data = content.graph;
    this.models = this.data.graphs.map((graph, index) => new GraphModel(this.data, index));
    this.view = { open: new Set(), constants: !this.data.op.some((op) => this.data.ops[op] !== "Const"), idle: false, colours: new Colours(this.data) };
    this.drawings = new Map();
    this.shown = [this.models.length - 1];
    this.active = null;
    this.stage = html("div", { class: "drawings" });
    this.legend = html("ul", { class: "legend" });
    this.details = html("aside", { class: "details", "aria-label": "Details" });
    this.search = searchField(() => this.current().model, (node) => this.goToFound(node));
    const left = this.data.left_out;
    this.notDrawn = [left && counted(left, "node") + " left out", content.called.left_out && "insides of " + counted(content.called.left_out, "call") + " not drawn"].filter(Boolean);
    this.element = html("div", { class: "graph" }, this.tools(), this.legend, html("div", { class: "graph-body" }, this.stage, this.details));
    this.begun = false;
  }

  tools() {
    const button = (text, title, onclick) => html("button", { type: "button", title, onclick }, text);
    return html(
      "div",
      { class: "tools" },
      this.search,
      this.models.length > 1 ? this.choice("Show", ["before", "after", "side by side"], "after", (name) => this.show(name)) : null,
      this.choice("Colour", this.models.length > 1 ? ["region", "change", "device"] : ["region", "device"], "region", (mode) => this.colour(mode)),
      this.check("constants", "Draw constants"),
      this.data.graphs.some((graph) => graph.regions.includes("x")) ? this.check("idle", "Draw nodes that are only kept for their names") : null,
      button("Close all", "Close all scopes", () => this.closeAll()),
      button("Fit", "Show all that is open (0)", () => this.each((drawing) => drawing.fit())),
      button("−", "Zoom out (-)", () => this.each((drawing) => drawing.zoomBy(0.8))),
      button("+", "Zoom in (+)", () => this.each((drawing) => drawing.zoomBy(1.25))),
    );
  }

  choice(label, names, chosen, choose) {
    const buttons = names.map((name) =>
      html("button", { type: "button", "aria-pressed": String(name === chosen), "data-choice": name, onclick: () => choose(name) }, name),
    );
    return html("div", { class: "choice", role: "group", "aria-label": label }, html("span", { class: "faint" }, label), buttons);
  }

  check(name, title) {
    const box = html("input", { type: "checkbox", "data-draws": name, checked: this.view[name], onchange: (event) => this.setDrawn(name, event.target.checked) });
    return html("label", { class: "check", title }, box, name);
  }

  press(name) {
    for (const button of this.element.querySelectorAll("[data-choice]")) {
      const siblings = [...button.parentElement.querySelectorAll("[data-choice]")];
      if (!siblings.some((one) => one.dataset.choice === name)) continue;
      button.setAttribute("aria-pressed", String(button.dataset.choice === name));
    }
  }

  drawing(index) {
    if (!this.drawings.has(index)) {
      const drawing = new GraphDrawing(this.models[index], this.view, {
        select: (item) => this.select(drawing, item),
        toggle: (item) => this.toggled(drawing, item),
      });
      this.drawings.set(index, drawing);
    }
    return this.drawings.get(index);
  }

  current() {
    return this.active && this.shown.includes(this.active.model.index) ? this.active : this.drawing(this.shown[this.shown.length - 1]);
  }

  each(act) {
    for (const index of this.shown) act(this.drawing(index));
  }

  /** Draws for the first time; the panel must be visible. */
  begin() {
    if (this.begun) return;
    this.begun = true;
    this.show(this.models.length > 1 ? "after" : this.models[0].label);
  }

  show(name) {
    this.press(name);
    const { active } = this;
    this.shown = name === "side by side" ? [0, 1] : [Math.max(this.models.findIndex((model) => model.label === name), 0)];
    if (name === "side by side") this.setColours("change");
    const titled = this.shown.length > 1;
    this.stage.replaceChildren(
      ...this.shown.map((index) => html("figure", {}, titled ? html("figcaption", {}, this.models[index].label) : null, this.drawing(index).element)),
    );
    this.each((drawing) => {
      if (active) this.mark(drawing, active, active.selected);
      drawing.render();
    });
    this.stage.classList.toggle("stacked", titled && this.isWide());
    this.each((drawing) => {
      drawing.fit(LEGIBLE);
      if (drawing.selected) drawing.bringIntoSight(drawing.shownFor(drawing.selected));
    });
    this.showLegend();
    this.showDetails();
  }

  /** Whether two drawings are better seen one above the other. */
  isWide() {
    const { width, height } = this.drawing(this.shown[0]).places.get(this.drawing(this.shown[0]).tree.root);
    return width > 1.4 * height;
  }

  setColours(mode) {
    this.view.colours.mode = mode;
    this.press(mode);
  }

  colour(mode) {
    this.setColours(mode);
    this.each((drawing) => drawing.render());
    this.showLegend();
    this.showDetails();
  }

  /** Draws constants or idle nodes, or leaves them out. */
  setDrawn(name, drawn) {
    this.view[name] = drawn;
    this.element.querySelector('[data-draws="' + name + '"]').checked = drawn;
    this.forgetLayouts();
    this.each((drawing) => drawing.render());
  }

  /** Lays out all graphs anew when they are drawn next, because what is open or drawn has changed. */
  forgetLayouts() {
    for (const drawing of this.drawings.values()) drawing.layout.forgetAll();
  }

  closeAll() {
    this.view.open.clear();
    this.forgetLayouts();
    this.each((drawing) => {
      drawing.render();
      drawing.fit();
    });
  }

  toggled(drawing, item) {
    for (const [, other] of this.drawings) other === drawing ? other.layout.forget(item) : other.layout.forgetAll();
    this.active = drawing;
    for (const index of this.shown) {
      const one = this.drawing(index);
      const same = one === drawing ? item : one.itemWithKey(item.key);
      if (same) one.keepingPlace(same, () => one.render());
      else one.render();
    }
    this.select(drawing, item, false);
    this.showLegend();
    announce(item.label + (this.view.open.has(item.key) ? " opened" : " closed"));
  }

  select(drawing, item, move = true) {
    this.active = drawing;
    this.path = item && item.node >= 0 ? pathThrough(drawing.model, item.node) : null;
    this.each((one) => {
      this.mark(one, drawing, item);
      one.render();
      if (one.selected && (move || one !== drawing)) one.bringIntoSight(one.shownFor(one.selected));
    });
    if (item) drawing.focusSelected();
    this.showDetails();
  }

  /** Selects in one drawing what is selected in another, or what stands for it, and marks its path. */
  mark(one, drawing, item) {
    let path = this.path;
    if (one === drawing || !item) one.selected = item;
    else if (item.node < 0) one.selected = one.itemWithKey(item.key);
    else {
      const isThere = one.model.has(item.node) && (this.view.idle || !one.model.isIdle(item.node));
      const node = isThere ? item.node : one.model.counterparts(item.node)[0];
      one.selected = node === undefined ? null : one.tree.itemOf[node];
      path = one.selected && pathThrough(one.model, node);
    }
    one.setPath(path && (path.fromInput || path.toLoss) ? path.nodes : []);
  }

  /** Opens what a node is in, selects it and shows it. */
  goTo(node) {
    let drawing = this.current();
    if (!drawing.model.has(node)) {
      const index = this.models.findIndex((model) => model.has(node));
      if (index < 0) return;
      this.show(this.models[index].label);
      drawing = this.drawing(index);
    }
    if (drawing.model.isIdle(node) && !this.view.idle && this.shown.length === 1) {
      this.show(this.models[0].label); // It is what it does there.
      drawing = this.drawing(0);
    }
    const kind = drawing.model.isIdle(node) ? "idle" : drawing.model.isConstant(node) ? "constants" : "";
    if (kind && !this.view[kind]) this.setDrawn(kind, true);
    this.each((one) => one.model.has(node) && one.reveal(node));
    this.forgetLayouts();
    this.select(drawing, drawing.tree.itemOf[node], false);
    this.each((one) => one.selected && one.bringIntoSight(one.shownFor(one.selected), true));
    announce(drawing.model.name(node) + " selected");
  }

  /** Goes to a node that was found, on the side that was searched: to what does its work if it is idle there. */
  goToFound(node) {
    const { model } = this.current();
    const [instead] = model.isIdle(node) && !this.view.idle ? model.counterparts(node) : [];
    if (instead === undefined && model.isIdle(node)) this.setDrawn("idle", true);
    this.goTo(instead === undefined ? node : instead);
  }

  nodeNamed(name) {
    const model = this.models[0];
    for (let node = 0; node < model.length; node++) if (model.name(node) === name) return node;
    return -1;
  }

  showLegend() {
    const rows = new Map();
    for (const index of this.shown) {
      const model = this.models[index];
      const drawing = this.drawing(index);
      const counts = new Map(drawing.tally(drawing.tree.root));
      for (const [category, name, meaning] of this.view.colours.legend(model)) {
        if (!counts.has(category)) continue;
        const row = rows.get(category) || { name, meaning, counts: [] };
        row.counts.push(grouped(counts.get(category)));
        rows.set(category, row);
      }
    }
    const lookups = this.shown.map((index) => this.drawing(index).tree.root.lookups);
    this.legend.replaceChildren(
      ...(lookups.some(Boolean) ? [html("li", { title: "where an embedding lookup ends, or what does its work" }, LOOKUP + " lookup ", html("span", { class: "faint" }, [...new Set(lookups.map(grouped))].join(" → ")))] : []),
      ...this.losses().map((node) => html("li", { title: "what training minimizes" }, LOSS + " ", html("button", { type: "button", class: "link", onclick: () => this.goTo(node) }, "loss"))),
      ...[...rows].map(([category, { name, meaning, counts }]) =>
        html("li", { title: meaning }, html("span", { class: "swatch " + category }), name + " ", html("span", { class: "faint" }, counts.join(" → "))),
      ),
      ...this.omittedEdges().map((text) => html("li", { class: "faint" }, text)),
      ...this.notDrawn.map((text) => html("li", { class: "faint" }, text)),
    );
  }

  /** The first loss of what is shown: a model may have many. */
  losses() {
    return this.data.losses.filter((node) => this.shown.some((index) => this.models[index].has(node))).slice(0, 1);
  }

  /** Scopes in which too much is connected have only their strongest edges; what reads all variables has none. */
  omittedEdges() {
    const omitted = this.shown.reduce((sum, index) => sum + this.drawing(index).omitted, 0);
    const aside = new Set(this.shown.flatMap((index) => this.drawing(index).aside.map((item) => item.label)));
    return [
      this.shown.some((index) => this.drawing(index).continues()) && "continues to the right: drag it, or 0 shows all",
      omitted && counted(omitted, "weaker edge") + " not drawn",
      aside.size && "edges into " + shortened([...aside].join(", "), 60) + " not drawn",
    ].filter(Boolean);
  }

  showDetails() {
    const drawing = this.current();
    this.details.replaceChildren(...detailsOf(drawing, drawing.selected, this.path, (node) => this.goTo(node)).flat(9).filter(Boolean));
  }
}
