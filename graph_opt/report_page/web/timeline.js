// The timeline of a run: a lane for each thread, its steps as bars, waits hatched.

const LANE = 26;
const STEPS_AT_FIRST = 12;
const MOST_BARS = 4000;
const LEAST_SPAN = 0.01;
const WAITS = { batch: "waits for a batch", room: "waits for room" };

class Timeline {
  constructor(data) {
    this.data = data;
    this.pace = paceOf(data);
    const pacing = pacingLanes(data);
    const lane = pacing[pacing.length - 1];
    // Steps of which waits are known, or from the middle.
    const spans = spansOf(lane, hasWaits);
    const span = spans.find((one) => one.last - one.first > 3 && one.start >= this.pace.from) || spans[0];
    const middle = Math.max((lane.steps.length >> 1) - STEPS_AT_FIRST / 2, 0);
    const first = span ? span.first : middle;
    const last = Math.min(first + STEPS_AT_FIRST - 1, span ? span.last : lane.steps.length - 1);
    this.from = lane.steps[first][0];
    this.to = Math.max(lane.steps[last][1], this.from + LEAST_SPAN);
    this.element = svg("svg", { class: "timeline", tabindex: "0", role: "img", "aria-label": "Timeline: arrow keys move, + and - zoom" });
    this.range = html("span", { class: "faint", role: "status" });
    this.table = html("div", { class: "lanes" });
    this.listen();
  }

  panel() {
    const button = (text, title, act) => html("button", { type: "button", title, onclick: act }, text);
    const entry = (category, name) => html("li", {}, html("span", { class: "swatch " + category }), name);
    const regions = ["io", "prefetch", "pipeline", "main"].filter((region) => this.data.lanes.some((lane) => lane.region === region));
    const isUnknown = this.data.lanes.some((lane) => !lane.steps.every(hasWaits));
    return html(
      "div",
      { class: "timeline-panel" },
      html("div", { class: "tools" }, button("All", "Show the whole run", () => this.show(0, this.data.end)), button("−", "Zoom out", () => this.zoom(1.6)), button("+", "Zoom in", () => this.zoom(0.625)), this.range),
      html("ul", { class: "legend" }, regions.map((region) => entry("r-" + region[0], region + " works")), this.data.detailed ? Object.entries(WAITS).map(([kind, name]) => entry("wait " + kind, name)) : null, isUnknown ? entry("unknown", "works or waits: not recorded") : null),
      html("div", { class: "timeline-frame" }, this.element),
      this.table,
      html("p", { class: "faint" }, this.explained()),
    );
  }

  explained() {
    const { warmUp, traced, steps } = this.pace;
    const untraced = steps > traced ? ", without " + counted(traced, "step") + " whose waits were recorded, which takes them longer" : "";
    return [
      this.data.detailed ? "Shares are of the part shown above, as far as waits are known in it: they are the lengths of the bars. " : "Waits are recorded if graph_opt.step_trace(session).detailed is set. ",
      "Median and longest are of the run after its first " + counted(warmUp, "step") + untraced + ". ",
      this.data.lanes.some((lane) => lane.region === "main") ? "" : "Steps of main are recorded inside graph_opt.step_trace(session).main_step().",
    ].join("");
  }

  /** A row for each lane: what it did in the part that is shown, and how long its steps took. */
  rows() {
    return this.data.lanes.map((lane) => ({ lane, use: useOf(lane, this.from, this.to), lengths: lengthsOf(lane, this.pace.from) }));
  }

  drawTable() {
    const percent = (use, name) => (use.known ? ((100 * use[name]) / use.known).toFixed(0) + " %" : "");
    const time = (length) => (length === undefined ? "" : length.toFixed(2) + " ms");
    const shares = this.data.detailed ? [["works", "works"], ["batch", WAITS.batch], ["room", WAITS.room], ["between", "between steps"]] : [];
    const head = (title, isNumber = true) => html("th", { scope: "col", class: isNumber ? "number" : "" }, title);
    const cell = (text) => html("td", { class: "number" }, text);
    const rows = this.rows().map(({ lane, use, lengths }) =>
      html("tr", { "data-lane": lane.stage + " " + lane.thread }, html("th", { scope: "row", title: lane.thread }, laneName(lane)),
        this.data.detailed ? html("td", {}, use.known ? shareBar(lane, use) : html("span", { class: "faint" }, "not recorded here")) : null,
        shares.map(([name]) => html("td", { class: "number", "data-share": name }, percent(use, name))),
        cell(grouped(lane.steps.length)), cell(time(lengths.median)), cell(time(lengths.longest))));
    const titles = [head("lane", false), this.data.detailed ? head("in the part shown", false) : null, shares.map(([, title]) => head(title)), head("steps"), head("median step"), head("longest")];
    this.table.replaceChildren(html("div", { class: "scroll" }, html("table", {}, html("caption", {}, "lanes"), html("thead", {}, html("tr", {}, titles)), html("tbody", {}, rows))));
  }

  show(from, to) {
    const length = Math.min(Math.max(to - from, LEAST_SPAN), this.data.end || 1);
    this.from = Math.min(Math.max(from, 0), Math.max(this.data.end - length, 0));
    this.to = this.from + length;
    this.draw();
  }

  zoom(factor, at = (this.from + this.to) / 2) {
    this.show(at - (at - this.from) * factor, at + (this.to - at) * factor);
  }

  draw() {
    const width = Math.max(this.element.parentElement ? this.element.parentElement.clientWidth : 0, 300);
    this.label = width < 600 ? 110 : 190;
    const height = this.data.lanes.length * LANE + 28;
    const scale = (width - this.label - 10) / (this.to - this.from);
    const x = (time) => this.label + (time - this.from) * scale;
    const parts = [svg("defs", {}, hatch("batch", 45), hatch("room", -45)), ...this.axis(x, height, width)];
    let left = MOST_BARS;
    this.data.lanes.forEach((lane, row) => {
      const y = row * LANE + 24;
      const label = laneName(lane);
      parts.push(svg("text", { x: 0, y: y + 13, class: "lane" }, shortened(printable(label), Math.floor(this.label / 7)), svg("title", {}, label)));
      let drawnTo = -1;
      for (const step of lane.steps) {
        if (step[1] <= this.from || step[0] >= this.to || left <= 0) continue;
        const begin = Math.max(x(step[0]), this.label);
        const end = Math.min(x(step[1]), width - 8);
        if (end < drawnTo + 0.4) continue; // Narrower than what can be seen.
        drawnTo = end;
        left--;
        parts.push(this.bar(lane, step, begin, end, y, x));
      }
    });
    this.element.setAttribute("viewBox", "0 0 " + width + " " + height);
    this.element.setAttribute("height", height);
    this.element.replaceChildren(...parts);
    this.range.textContent = this.from.toFixed(1) + " – " + this.to.toFixed(1) + " ms of " + this.data.end.toFixed(1) + " ms";
    this.drawTable();
  }

  bar(lane, step, begin, end, y, x) {
    const [start, stop, number] = step;
    const waits = waitsOf(step);
    const group = svg("g", { class: "step r-" + lane.region[0] + (hasWaits(step) ? "" : " unknown") }, svg("rect", { x: begin, y, width: Math.max(end - begin - 0.5, 0.5), height: LANE - 8, rx: 2 }));
    for (const wait of waits) {
      const a = Math.max(x(wait.start), begin);
      const b = Math.min(x(wait.end), end);
      if (b - a > 0.5) group.append(svg("rect", { class: "wait " + wait.kind, x: a, y, width: b - a, height: LANE - 8 }));
    }
    if (end - begin > 24) group.append(svg("text", { x: begin + 4, y: y + 13 }, String(number)));
    const told = waits.map((wait) => ", " + WAITS[wait.kind] + ": " + (wait.end - wait.start).toFixed(2) + " ms").join("");
    group.append(svg("title", {}, lane.stage + ", step " + number + ": " + (stop - start).toFixed(2) + " ms, from " + start.toFixed(2) + " ms" + (hasWaits(step) ? told : isTraced(step) ? "; tracing was set up" : "; waits were not recorded")));
    return group;
  }

  axis(x, height, width) {
    const parts = [];
    const rough = (this.to - this.from) / Math.max((width - this.label) / 130, 2);
    const unit = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((times) => times * unit).find((size) => size >= rough);
    for (let time = Math.ceil(this.from / step) * step; time <= this.to; time += step) {
      parts.push(svg("line", { x1: x(time), x2: x(time), y1: 16, y2: height, class: "grid" }));
      parts.push(svg("text", { x: x(time), y: 11, class: "tick" }, Number(time.toFixed(6)) + " ms"));
    }
    return parts;
  }

  listen() {
    const { element } = this;
    element.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.shiftKey && Math.abs(event.deltaX) < Math.abs(event.deltaY)) return; // Scrolls the page.
      event.preventDefault();
      const width = element.clientWidth - this.label;
      const at = this.from + ((event.offsetX - this.label) / width) * (this.to - this.from);
      if (event.ctrlKey) this.zoom(Math.exp(event.deltaY * 0.002), at);
      else this.move((event.deltaX || event.deltaY) / width);
    }, { passive: false });
    let last = null;
    element.addEventListener("pointerdown", (event) => {
      last = event.clientX;
      element.setPointerCapture(event.pointerId);
    });
    element.addEventListener("pointermove", (event) => {
      if (last === null || !(event.buttons & 1)) return;
      this.move((last - event.clientX) / (element.clientWidth - this.label));
      last = event.clientX;
    });
    element.addEventListener("pointerup", () => (last = null));
    element.addEventListener("keydown", (event) => {
      const acts = { ArrowLeft: () => this.move(-0.2), ArrowRight: () => this.move(0.2), "+": () => this.zoom(0.625), "-": () => this.zoom(1.6), 0: () => this.show(0, this.data.end) };
      if (!acts[event.key] || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      acts[event.key]();
    });
  }

  move(share) {
    const by = share * (this.to - this.from);
    this.show(this.from + by, this.to + by);
  }
}

/** Lines at an angle, for one kind of waits. */
function hatch(kind, angle) {
  return svg("pattern", { id: "hatch-" + kind, width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(" + angle + ")" }, svg("rect", { width: 5, height: 5, class: "wait-ground" }), svg("rect", { width: 2, height: 5, class: "wait-line" }));
}

function laneName(lane) {
  return lane.stage === "main" ? "main" : lane.stage + lane.thread.replace(/^.*\/(?=\d+$)/, "  ");
}

/** What a lane did, as parts of a bar: works, waits for a batch, waits for room; the rest is between steps. */
function shareBar(lane, use) {
  const width = 160;
  let x = 0;
  const part = (name, style) => {
    const length = (width * use[name]) / use.known;
    const rect = length > 0 ? svg("rect", { class: style, x, y: 0, width: length, height: 12 }) : null;
    x += length;
    return rect;
  };
  const parts = [part("works", ""), part("batch", "wait batch"), part("room", "wait room")].filter(Boolean);
  return svg("svg", { class: "use step r-" + lane.region[0], width, height: 12, "aria-hidden": "true" }, svg("rect", { class: "frame", x: 0.5, y: 0.5, width: width - 1, height: 11 }), parts);
}
