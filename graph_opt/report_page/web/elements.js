// Elements of the page. Whatever a graph says reaches the document through these functions, as text.

const SVG_NAMES = "http://www.w3.org/2000/svg";
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

/** The text with line breaks, marks of direction and the like spelled out. */
function printable(text) {
  return String(text).replace(UNPRINTABLE, (one) => "\\u{" + one.codePointAt(0).toString(16) + "}");
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : printable(value));
  }
  for (const child of children.flat(9)) {
    if (child === undefined || child === null || child === "") continue;
    element.append(child instanceof Node ? child : printable(child));
  }
  return element;
}

/** An HTML element; `on...` attributes are listeners, children that are no nodes become text. */
function html(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** The same of SVG. */
function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG_NAMES, tag), attributes, children);
}

/** A number with thin spaces between thousands. */
function grouped(number) {
  return String(number).replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f");
}

function plural(number, noun) {
  return noun + (number === 1 ? "" : "s");
}

function counted(number, noun) {
  return grouped(number) + " " + plural(number, noun);
}

function bytesText(bytes) {
  if (bytes === null || bytes === undefined) return "";
  let size = bytes;
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (size < 1024 || unit === "GiB") return (unit === "B" ? size : size.toFixed(1)) + " " + unit;
    size /= 1024;
  }
  return "";
}

/** The text, or its end if it is long: names of nodes differ at their ends. */
function ending(text, most) {
  return text.length <= most ? text : "…" + text.slice(text.length - most + 1);
}

/**
 * Short texts for names that differ: of each its last parts, as many as no other name ends with,
 * and more while there is room.
 */
function distinctEndings(names, most) {
  const counts = new Map();
  const endings = (name) => {
    const parts = name.split("/");
    return parts.map((part, from) => parts.slice(from).join("/")).reverse();
  };
  for (const name of new Set(names)) for (const end of endings(name)) counts.set(end, (counts.get(end) || 0) + 1);
  const found = new Map();
  let last = [...new Set(names)][1] || "";
  for (const name of new Set(names)) {
    const all = endings(name);
    const fits = all.filter((end) => end.length <= most).pop() || "";
    const single = all.find((end) => counts.get(end) === 1) || name;
    const chosen = fits.length > single.length ? fits : single;
    const text = chosen === name ? name : "…/" + chosen;
    found.set(name, text.length > 1.5 * most ? around(name, lastDifference(name, last), most) : text);
    last = name;
  }
  return found;
}

/** Where a text differs from another for the last time. */
function lastDifference(text, other) {
  let same = 0;
  while (same < text.length && same < other.length && text[text.length - 1 - same] === other[other.length - 1 - same]) same++;
  return text.length - same;
}

/** As much of a long text as fits, around a place of it. */
function around(text, place, most) {
  const start = Math.max(0, Math.min(place - Math.floor(most / 2), text.length - most));
  return (start ? "…" : "") + text.slice(start, start + most) + (start + most < text.length ? "…" : "");
}

/** The text, or as much of both ends as fits. */
function shortened(text, most) {
  if (text.length <= most) return text;
  const head = Math.ceil((most - 1) * 0.45);
  return text.slice(0, head) + "…" + text.slice(text.length - (most - 1 - head));
}

/** Says something to those who do not see the page change. */
function announce(text) {
  const status = document.getElementById("status");
  if (status) status.textContent = printable(text);
}
