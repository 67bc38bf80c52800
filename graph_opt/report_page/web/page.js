// Puts the page together.

function start() {
  const content = JSON.parse(document.getElementById("content").textContent);
  document.getElementById("title").textContent = printable(content.title);
  document.getElementById("summary").textContent = printable(content.overview.summary);
  document.getElementById("theme").addEventListener("click", changeTheme);
  const graph = new GraphPanel(content);
  const goTo = (name) => {
    const node = [name, name + "/part_0"].map((one) => graph.nodeNamed(one)).find((one) => one >= 0);
    if (node === undefined) return;
    tabs.open("graph");
    graph.goTo(node);
  };
  if (content.timeline) leaveOutSetUp(content.timeline);
  const line = content.timeline && new Timeline(content.timeline);
  const tabs = tabbed([
    { id: "overview", title: "Overview", element: overviewPanel(content, goTo) },
    { id: "graph", title: "Graph", element: graph.element, opened: () => graph.begin() },
    { id: "lookups", title: "Lookups", count: content.lookups.length, element: lookupsPanel(content, goTo) },
    line && { id: "timeline", title: "Timeline", element: line.panel(), opened: () => line.draw() },
  ].filter(Boolean));
  window.addEventListener("resize", () => line && tabs.current === "timeline" && line.draw());
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    event.preventDefault();
    tabs.open("graph");
    document.getElementById("search").focus();
  });
  window.addEventListener("beforeprint", () => {
    tabs.openAll();
    graph.each((drawing) => drawing.setWhole(true));
  });
  window.addEventListener("afterprint", () => {
    graph.each((drawing) => drawing.setWhole(false));
    tabs.open(tabs.current);
  });
  tabs.open((location.hash || "").slice(1) || "overview");
}

/** Tabs as the ARIA practices describe them: one is in the order of Tab, arrows go to the others. */
function tabbed(parts) {
  const list = document.querySelector(".tabs");
  const main = document.getElementById("main");
  const tabs = { current: "", open, openAll };
  for (const part of parts) {
    part.tab = html("button", { type: "button", role: "tab", id: "tab-" + part.id, "aria-controls": part.id, onclick: () => open(part.id) }, part.title, part.count ? html("span", { class: "faint" }, " " + grouped(part.count)) : null);
    part.panel = html("section", { role: "tabpanel", id: part.id, "aria-labelledby": "tab-" + part.id }, part.element);
    list.append(part.tab);
    main.append(part.panel);
  }
  function open(id) {
    const chosen = parts.find((part) => part.id === id) || parts[0];
    for (const part of parts) {
      part.panel.hidden = part !== chosen;
      part.tab.setAttribute("aria-selected", String(part === chosen));
      part.tab.tabIndex = part === chosen ? 0 : -1;
    }
    tabs.current = chosen.id;
    if (chosen.opened) chosen.opened();
  }
  function openAll() {
    for (const part of parts) part.panel.hidden = false;
    for (const part of parts) if (part.opened) part.opened();
  }
  list.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const place = parts.findIndex((part) => part.id === tabs.current);
    const next = parts[(place + step + parts.length) % parts.length];
    open(next.id);
    next.tab.focus();
  });
  return tabs;
}

function changeTheme() {
  const dark = window.matchMedia("(prefers-color-scheme: dark)").matches;
  const now = document.documentElement.dataset.theme || (dark ? "dark" : "light");
  document.documentElement.dataset.theme = now === "dark" ? "light" : "dark";
}

start();
