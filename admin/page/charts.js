// Small SVG charts with a text alternative.

import { label, write } from "./elements.js";
import { duration } from "./format.js";

const namespace = "http://www.w3.org/2000/svg";
const height = 36;

// The minimum width of a chart in values, so that the first few do not fill it.
const minWidth = 20;

// chart draws values, step seconds apart and oldest first, into a <figure>. A null is
// an unknown value. subject names the object, what the quantity; format formats a
// value.
export function chart(figure, { subject, what, values, step, format }) {
  if (!figure.firstElementChild) build(figure);
  const [caption, most, svg] = figure.children;
  const known = values.filter((v) => v !== null);
  const top = Math.max(0, ...known);
  write(caption, what);
  write(most, known.length ? `max ${format(top)}` : "no data yet");
  label(
    svg,
    known.length
      ? `${subject}: ${what.toLowerCase()} over the last ${duration(values.length * step)}: now ${format(known.at(-1))}, maximum ${format(top)}`
      : `${subject}: ${what.toLowerCase()}: no data yet`,
  );
  const width = Math.max(values.length, minWidth);
  const { line, area } = paths(values, top, width - values.length);
  svg.setAttribute("viewBox", `0 0 ${width - 1} ${height}`);
  svg.children[0].setAttribute("d", area);
  svg.children[1].setAttribute("d", line);
}

function build(figure) {
  const caption = document.createElement("figcaption");
  const most = document.createElement("span");
  most.className = "most";
  const svg = document.createElementNS(namespace, "svg");
  svg.setAttribute("role", "img");
  svg.setAttribute("preserveAspectRatio", "none");
  for (const name of ["area", "line"]) {
    const path = document.createElementNS(namespace, "path");
    path.setAttribute("class", name);
    svg.append(path);
  }
  figure.append(caption, most, svg);
}

// paths returns the paths of the line and the area, with a segment for each run of
// known values. left is the x of the first value.
function paths(values, top, left) {
  const y = (v) => (top > 0 ? height - 2 - (v / top) * (height - 4) : height - 2).toFixed(1);
  let line = "";
  let area = "";
  for (let from = 0; from < values.length; from++) {
    if (values[from] === null) continue;
    let to = from;
    let points = "";
    for (; to < values.length && values[to] !== null; to++) points += `L${left + to} ${y(values[to])}`;
    // A single value between unknown ones is drawn as a point.
    line += `M${points.slice(1)}${to - from === 1 ? "h.3" : ""}`;
    area += `M${left + from} ${height}${points}V${height}Z`;
    from = to;
  }
  return { line, area };
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
