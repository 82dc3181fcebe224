// Small SVG charts with a time axis, whose values can be read with the pointer and with the
// arrow keys.

import { label, write } from "./elements.js";
import { duration, toAxis, toSecond } from "./format.js";

const namespace = "http://www.w3.org/2000/svg";
const height = 36;

// The minimum width of a chart in values, so that the first few do not fill it.
const minWidth = 20;

// A value that is larger than this many times the 95th percentile does not set the scale:
// the chart would be a flat line with one peak. It is cut and marked.
const burst = 4;

// The charts by their figures: {values, step, until, format, what, top, selected}.
const charts = new WeakMap();

// chart draws values, step seconds apart and oldest first, into a <figure>. until is the time
// of the last one. A null is an unknown value. subject names the object, what the quantity;
// format formats a value.
export function chart(figure, { subject, what, values, step, until, format }) {
  if (!figure.firstElementChild) build(figure);
  const known = values.filter((v) => v !== null);
  const width = Math.max(values.length, minWidth);
  const c = charts.get(figure);
  Object.assign(c, { values, step, until: Date.parse(until), format, what, width, left: width - values.length });
  c.most = Math.max(0, ...known);
  c.top = scale(known, c.most);
  const { caption, plot, svg } = c.parts;
  write(caption, what);
  label(plot, `${subject}: ${what.toLowerCase()} over the last ${duration(values.length * step)}`);
  plot.setAttribute("aria-valuemax", Math.max(0, values.length - 1));
  svg.setAttribute("viewBox", `0 0 ${width - 1} ${height}`);
  const { line, area, cut } = paths(c);
  c.parts.area.setAttribute("d", area);
  c.parts.line.setAttribute("d", line);
  c.parts.cut.setAttribute("d", cut);
  const at = (x) => (values.length ? toAxis(timeOf(c, x - c.left)) : "");
  [0, (width - 1) / 2, width - 1].forEach((x, i) => write(c.parts.axis.children[i], at(x)));
  showSelected(c);
}

// scale returns the value at the top of a chart.
function scale(known, most) {
  const sorted = [...known].sort((a, b) => a - b);
  const usual = sorted[Math.floor(0.95 * (sorted.length - 1))];
  return sorted.length >= minWidth && usual > 0 && most > burst * usual ? 1.5 * usual : most;
}

function build(figure) {
  const element = (name, className, parent) => {
    const e = document.createElement(name);
    if (className) e.className = className;
    parent.append(e);
    return e;
  };
  const caption = element("figcaption", "", figure);
  const readout = element("span", "most", figure);
  const plot = element("div", "plot", figure);
  plot.tabIndex = 0;
  plot.setAttribute("role", "slider"); // moves through the values; it changes none
  plot.setAttribute("aria-readonly", "true");
  plot.setAttribute("aria-valuemin", "0");
  const svg = document.createElementNS(namespace, "svg");
  svg.setAttribute("aria-hidden", "true");
  svg.setAttribute("preserveAspectRatio", "none");
  const path = (className) => {
    const p = document.createElementNS(namespace, "path");
    p.setAttribute("class", className);
    svg.append(p);
    return p;
  };
  const parts = { caption, readout, plot, svg, area: path("area"), line: path("line"), cut: path("cut"), cursor: path("cursor") };
  plot.append(svg);
  parts.axis = element("div", "axis", figure);
  parts.axis.setAttribute("aria-hidden", "true");
  for (let i = 0; i < 3; i++) element("span", "", parts.axis);
  const c = { parts, selected: null };
  charts.set(figure, c);
  const select = (index) => {
    c.selected = index === null || c.values.length === 0 ? null : Math.min(c.values.length - 1, Math.max(0, index));
    showSelected(c);
  };
  const point = (event) => {
    const box = plot.getBoundingClientRect();
    select(Math.round(((event.clientX - box.left) / box.width) * (c.width - 1)) - c.left);
  };
  plot.addEventListener("pointermove", point);
  plot.addEventListener("pointerdown", point);
  plot.addEventListener("pointerleave", () => select(null));
  plot.addEventListener("blur", () => select(null));
  plot.addEventListener("keydown", (event) => {
    const now = c.selected ?? c.values.length;
    const steps = { ArrowLeft: now - 1, ArrowRight: now + 1, PageUp: now - 20, PageDown: now + 20, Home: 0, End: c.values.length - 1, Escape: null };
    if (!(event.key in steps) || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    select(steps[event.key]);
  });
}

const timeOf = (c, index) => c.until - (c.values.length - 1 - index) * c.step * 1000;

// showSelected shows the selected value, or the maximum if there is none.
function showSelected(c) {
  const { readout, plot, cursor } = c.parts;
  const known = c.values.filter((v) => v !== null);
  const inWords = (v) => (v === null ? "not known" : c.format(v));
  let text = "no data yet";
  let spoken = text;
  if (c.selected !== null && c.selected < c.values.length) {
    const at = toSecond(timeOf(c, c.selected));
    text = `${inWords(c.values[c.selected])} at ${at}`;
    spoken = text;
  } else if (known.length) {
    text = c.top < c.most ? `max ${c.format(c.most)}, cut at ${c.format(c.top)}` : `max ${c.format(c.most)}`;
    spoken = `now ${inWords(c.values.at(-1))}, maximum ${c.format(c.most)}`;
  }
  write(readout, text);
  const index = c.selected ?? c.values.length - 1;
  plot.setAttribute("aria-valuenow", Math.max(0, index));
  if (plot.getAttribute("aria-valuetext") !== spoken) plot.setAttribute("aria-valuetext", spoken);
  cursor.setAttribute("d", c.selected === null ? "" : `M${c.left + c.selected} 0V${height}`);
}

// paths returns the paths of the line and the area, with a segment for each run of
// known values, and of the marks above values that are cut.
function paths({ values, top, left }) {
  const y = (v) => (top > 0 ? height - 2 - (Math.min(v, top) / top) * (height - 4) : height - 2).toFixed(1);
  let line = "";
  let area = "";
  let cut = "";
  for (let from = 0; from < values.length; from++) {
    if (values[from] === null) continue;
    let to = from;
    let points = "";
    for (; to < values.length && values[to] !== null; to++) {
      points += `L${left + to} ${y(values[to])}`;
      if (values[to] > top) cut += `M${left + to - 0.6} 1.5h1.2`;
    }
    // A single value between unknown ones is drawn as a point.
    line += `M${points.slice(1)}${to - from === 1 ? "h.3" : ""}`;
    area += `M${left + from} ${height}${points}V${height}Z`;
    from = to;
  }
  return { line, area, cut };
}

// bar fills an <svg role="meter"> to a share between 0 and 1.
export function bar(svg, share, subject, text) {
  const percent = Math.round(Math.min(1, Math.max(0, share)) * 1000) / 10;
  svg.lastElementChild.setAttribute("width", percent);
  svg.dataset.level = share >= 0.9 ? "bad" : share >= 0.7 ? "warn" : "ok";
  svg.setAttribute("aria-valuenow", percent);
  svg.setAttribute("aria-valuetext", text);
  label(svg, subject);
}
