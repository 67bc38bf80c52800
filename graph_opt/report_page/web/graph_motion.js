// Pan, zoom and keys of a drawing.

Object.assign(GraphDrawing.prototype, {
  listen() {
    const { element } = this;
    element.addEventListener("wheel", (event) => {
      event.preventDefault();
      const { left, top } = element.getBoundingClientRect();
      this.zoomAt(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0015)), event.clientX - left, event.clientY - top);
    }, { passive: false });
    let from = null;
    element.addEventListener("pointerdown", (event) => {
      if (event.button === 0) from = { x: event.clientX, y: event.clientY, moved: false };
    });
    element.addEventListener("pointermove", (event) => {
      if (!from || !(event.buttons & 1)) return;
      const [dx, dy] = [event.clientX - from.x, event.clientY - from.y];
      if (!from.moved && Math.hypot(dx, dy) < 4) return;
      if (!from.moved) element.setPointerCapture(event.pointerId);
      element.classList.add("panning");
      this.at.x += dx;
      this.at.y += dy;
      from = { x: event.clientX, y: event.clientY, moved: true };
      this.move();
    });
    element.addEventListener("pointerup", () => {
      element.classList.remove("panning");
      this.panned = from !== null && from.moved;
      from = null;
    });
    element.addEventListener("click", (event) => {
      if (this.panned) return;
      const item = itemAt(event.target);
      this.listener.select(item);
    });
    element.addEventListener("dblclick", (event) => {
      const item = itemAt(event.target);
      if (item) this.toggle(item);
    });
    element.addEventListener("keydown", (event) => this.press(event));
  },

  press(event) {
    const item = itemAt(event.target);
    const arrows = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (arrows[event.key] && item) this.focusNext(item, ...arrows[event.key]);
    else if ((event.key === "Enter" || event.key === " ") && item) {
      if (item.children.length) this.toggle(item);
      else this.listener.select(item);
    } else if (event.key === "+" || event.key === "=") this.zoomBy(1.25);
    else if (event.key === "-") this.zoomBy(0.8);
    else if (event.key === "0" || event.key === "f") this.fit();
    else if (event.key === "Escape") this.listener.select(null);
    else return;
    event.preventDefault();
  },

  /** Selects the nearest item in a direction. */
  focusNext(item, dx, dy) {
    const from = middleOf(this.places.get(item));
    let best = null;
    for (const [other, place] of this.places) {
      if (other === item || other === this.tree.root || (this.layout.isOpen(other) && other.node < 0)) continue;
      const to = middleOf(place);
      const along = (to.x - from.x) * dx + (to.y - from.y) * dy;
      const across = Math.abs((to.x - from.x) * dy) + Math.abs((to.y - from.y) * dx);
      if (along <= 1) continue;
      const distance = along + 2 * across;
      if (best === null || distance < best.distance) best = { other, distance };
    }
    if (best) this.listener.select(best.other);
  },

  focusSelected() {
    for (const group of this.content.querySelectorAll("g.item")) {
      if (group.item === this.selected) group.focus({ preventScroll: true });
    }
  },

  move() {
    const { x, y, zoom } = this.at;
    this.content.setAttribute("transform", "translate(" + x.toFixed(1) + "," + y.toFixed(1) + ") scale(" + zoom.toFixed(4) + ")");
    this.element.classList.toggle("far", zoom < 0.35);
  },

  zoomAt(factor, x, y) {
    const zoom = Math.min(Math.max(this.at.zoom * factor, LEAST_ZOOM), MOST_ZOOM);
    const by = zoom / this.at.zoom;
    this.at = { x: x - (x - this.at.x) * by, y: y - (y - this.at.y) * by, zoom };
    this.move();
  },

  zoomBy(factor) {
    const { width, height } = this.element.getBoundingClientRect();
    this.zoomAt(factor, width / 2, height / 2);
  },

  /** Shows all that is drawn, or from its left side on what is legible at this zoom. */
  fit(least = LEAST_ZOOM) {
    const { width, height } = this.element.getBoundingClientRect();
    const all = this.places.get(this.tree.root);
    if (!width || !all) return;
    const zoom = Math.max(Math.min(width / all.width, height / all.height, 1.15) * 0.98, least);
    this.at = { x: Math.max((width - all.width * zoom) / 2, 0), y: Math.max((height - all.height * zoom) / 2, 0), zoom };
    this.move();
  },

  /** Whether some of what is drawn is to the right of what is seen. */
  continues() {
    const all = this.places.get(this.tree.root);
    return Boolean(all) && this.at.x + all.width * this.at.zoom > this.element.getBoundingClientRect().width + 1;
  },

  /** Shows all that is drawn on a page of paper, whatever its size will be. */
  setWhole(whole) {
    const { width, height } = this.places.get(this.tree.root);
    if (whole) {
      this.element.setAttribute("viewBox", "0 0 " + width + " " + height);
      this.content.removeAttribute("transform");
    } else {
      this.element.removeAttribute("viewBox");
      this.move();
    }
  },

  /** Brings an item to the middle if it is not in sight. */
  bringIntoSight(item, always = false) {
    const place = this.places.get(item);
    const { width, height } = this.element.getBoundingClientRect();
    if (!place || !width) return;
    const zoom = always ? Math.min(Math.max(this.at.zoom, 0.7), 1.2) : this.at.zoom;
    const left = place.x * zoom + this.at.x;
    const top = place.y * zoom + this.at.y;
    const inside = left >= 0 && top >= 0 && left + place.width * zoom <= width && top + place.height * zoom <= height;
    if (inside && zoom === this.at.zoom) return;
    const { x, y } = middleOf(place);
    this.at = { x: width / 2 - x * zoom, y: height / 2 - y * zoom, zoom };
    this.move();
  },

  /** Keeps an item where it is on the screen while `change` draws anew. */
  keepingPlace(item, change) {
    const before = this.places.get(item);
    const old = before && { x: before.x, y: before.y };
    change();
    const after = this.places.get(item);
    if (!old || !after) return;
    this.at.x += (old.x - after.x) * this.at.zoom;
    this.at.y += (old.y - after.y) * this.at.zoom;
    this.move();
  },
});

function itemAt(target) {
  const group = target.closest ? target.closest("g.item") : null;
  return group ? group.item : null;
}

function middleOf({ x, y, width, height }) {
  return { x: x + width / 2, y: y + height / 2 };
}
