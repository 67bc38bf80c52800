// The timeline of a run: a lane for each thread, its steps as bars, waits hatched.

const LANE = 26;
const LANE_LABEL = 190;
const STEPS_AT_FIRST = 12;
const MOST_BARS = 4000;

class Timeline {
  constructor(data) {
    this.data = data;
    const first = data.lanes.reduce((most, lane) => (lane.steps.length >= most.steps.length ? lane : most), data.lanes[0]);
    // Some steps of which waits are known, or from the middle: the first ones, in which much is set up, are like no others.
    const detailed = first.steps.flatMap((step, place) => (step[3] ? [place] : []));
    const middle = detailed.length ? detailed[detailed.length >> 1] : first.steps.length >> 1;
    this.from = first.steps[Math.max(middle - STEPS_AT_FIRST / 2, 0)][0];
    this.to = first.steps[Math.min(middle + STEPS_AT_FIRST / 2, first.steps.length - 1)][1];
    this.element = svg("svg", { class: "timeline", tabindex: "0", role: "img", "aria-label": "Timeline: arrow keys move, + and - zoom" });
    this.range = html("span", { class: "faint", role: "status" });
    this.listen();
  }

  panel() {
    const button = (text, title, act) => html("button", { type: "button", title, onclick: act }, text);
    return html(
      "div",
      { class: "timeline-panel" },
      html("div", { class: "tools" }, button("All", "Show the whole run", () => this.show(0, this.data.end)), button("−", "Zoom out", () => this.zoom(1.6)), button("+", "Zoom in", () => this.zoom(0.625)), this.range),
      html("ul", { class: "legend" }, [["r-i", "io"], ["r-p", "prefetch"], ["r-m", "main"]].map(([category, name]) => html("li", {}, html("span", { class: "swatch " + category }), name)), html("li", {}, html("span", { class: "swatch wait" }), "waits at a buffer")),
      html("div", { class: "timeline-frame" }, this.element),
      this.summary(),
    );
  }

  /** A row for each lane: its steps, how long they took, and which part of it they waited. */
  summary() {
    const rows = this.data.lanes.map((lane) => {
      const lengths = lane.steps.map(([start, end]) => end - start).sort((one, other) => one - other);
      const busy = lengths.reduce((sum, length) => sum + length, 0);
      return { lane, count: lengths.length, middle: lengths[Math.floor(lengths.length / 2)], longest: lengths[lengths.length - 1], busy: busy / this.data.end, waits: shareOfWaits(lane.steps) };
    });
    const percent = (share) => (100 * share).toFixed(0) + " %";
    return html(
      "div",
      {},
      sortableTable(
        [
          { title: "lane", value: (row) => row.lane.stage + " " + row.lane.thread },
          { title: "steps", value: (row) => row.count, number: true },
          { title: "median step", value: (row) => row.middle, show: (row) => row.middle.toFixed(2) + " ms", number: true },
          { title: "longest", value: (row) => row.longest, show: (row) => row.longest.toFixed(2) + " ms", number: true },
          { title: "in steps", value: (row) => row.busy, show: (row) => percent(row.busy), number: true },
          ...(this.data.detailed ? [{ title: "of that waiting", value: (row) => row.waits, show: (row) => (row.waits === null ? "" : percent(row.waits)), number: true }] : []),
        ],
        rows,
        { caption: "lanes" },
      ),
      this.data.detailed ? null : html("p", { class: "faint" }, "Waits are recorded if graph_opt.step_trace(session).detailed is set."),
      this.data.lanes.some((lane) => lane.region === "main") ? null : html("p", { class: "faint" }, "Steps of main are recorded inside graph_opt.step_trace(session).main_step()."),
    );
  }

  show(from, to) {
    const length = Math.min(Math.max(to - from, 0.01), this.data.end || 1);
    this.from = Math.min(Math.max(from, 0), Math.max(this.data.end - length, 0));
    this.to = this.from + length;
    this.draw();
  }

  zoom(factor, at = (this.from + this.to) / 2) {
    this.show(at - (at - this.from) * factor, at + (this.to - at) * factor);
  }

  draw() {
    const width = Math.max(this.element.parentElement ? this.element.parentElement.clientWidth : 0, 400);
    const height = this.data.lanes.length * LANE + 28;
    const scale = (width - LANE_LABEL - 10) / (this.to - this.from);
    const x = (time) => LANE_LABEL + (time - this.from) * scale;
    const parts = [svg("defs", {}, svg("pattern", { id: "hatch", width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, svg("rect", { width: 5, height: 5, class: "wait-ground" }), svg("rect", { width: 2, height: 5, class: "wait-line" })))];
    parts.push(...this.axis(x, height));
    let left = MOST_BARS;
    this.data.lanes.forEach((lane, row) => {
      const y = row * LANE + 24;
      const label = lane.stage === "main" ? "main" : lane.stage + lane.thread.replace(/^.*\/(?=\d+$)/, "  ");
      parts.push(svg("text", { x: 0, y: y + 13, class: "lane" }, shortened(printable(label), 30), svg("title", {}, label)));
      let drawnTo = -1;
      for (const step of lane.steps) {
        if (step[1] < this.from || step[0] > this.to || left <= 0) continue;
        const begin = Math.max(x(step[0]), LANE_LABEL);
        const end = Math.min(x(step[1]), width - 8);
        if (end < drawnTo + 0.4) continue; // Narrower than what can be seen.
        drawnTo = end;
        left--;
        parts.push(this.bar(lane, step, begin, end, y, x, width));
      }
    });
    this.element.setAttribute("viewBox", "0 0 " + width + " " + height);
    this.element.setAttribute("height", height);
    this.element.replaceChildren(...parts);
    this.range.textContent = this.from.toFixed(1) + " – " + this.to.toFixed(1) + " ms of " + this.data.end.toFixed(1) + " ms";
  }

  bar(lane, step, begin, end, y, x, width) {
    const [start, stop, number, waits] = step;
    const group = svg("g", { class: "step r-" + lane.region[0] }, svg("rect", { x: begin, y, width: Math.max(end - begin - 0.5, 0.5), height: LANE - 8, rx: 2 }));
    for (const [from, to] of waits || []) {
      const a = Math.max(x(from), begin);
      const b = Math.min(x(to), end);
      if (b - a > 0.5) group.append(svg("rect", { class: "wait", x: a, y, width: b - a, height: LANE - 8, fill: "url(#hatch)" }));
    }
    if (end - begin > 24) group.append(svg("text", { x: begin + 4, y: y + 13 }, String(number)));
    group.append(svg("title", {}, lane.stage + ", step " + number + ": " + (stop - start).toFixed(2) + " ms, from " + start.toFixed(2) + " ms"));
    return group;
  }

  axis(x, height) {
    const parts = [];
    const rough = (this.to - this.from) / 8;
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
      const width = element.clientWidth - LANE_LABEL;
      const at = this.from + ((event.offsetX - LANE_LABEL) / width) * (this.to - this.from);
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
      this.move((last - event.clientX) / (element.clientWidth - LANE_LABEL));
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

/** Which part of its steps a lane waited, of the steps whose waits were recorded; null if there are none. */
function shareOfWaits(steps) {
  const known = steps.filter((step) => step[3]);
  const length = (sum, [start, end]) => sum + end - start;
  const total = known.reduce(length, 0);
  return total ? known.reduce((sum, step) => step[3].reduce(length, sum), 0) / total : null;
}
