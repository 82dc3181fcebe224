// Functions that update the document in place. An element is kept for as long as the
// object that it shows exists, so that focus and scroll position are kept.

import { count, exact, inUTC } from "./format.js";

// part returns the element within root with a given data-part.
export const part = (root, name) => root.querySelector(`[data-part="${name}"]`);

// make returns a new element from a template.
export const make = (template) => document.getElementById(template).content.firstElementChild.cloneNode(true);

// write sets the text of an element if it differs, so that screen readers do not
// announce unchanged text.
export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// label sets the accessible name of an element.
export function label(element, text) {
  if (element.getAttribute("aria-label") !== text) element.setAttribute("aria-label", text);
}

// writeOrHide writes text, or hides the element if there is none.
export function writeOrHide(element, text) {
  element.hidden = !text;
  write(element, text || "");
}

// time shows a time in a <time>, with the time in UTC as its title.
export function time(element, rfc3339, format) {
  if (element.dateTime !== rfc3339) {
    element.dateTime = rfc3339;
    element.title = inUTC(rfc3339);
  }
  write(element, format(rfc3339));
}

// number shows a number, with all its digits as its title if it is abbreviated.
export function number(element, n) {
  write(element, count(n));
  const title = exact(n);
  if (element.title !== title) element.title = title;
}

// icon shows one of the page's symbols in an <svg>.
export function icon(svg, shape) {
  const use = svg.firstElementChild;
  if (use.getAttribute("href") !== `#${shape}`) use.setAttribute("href", `#${shape}`);
}

// sync gives parent one child for each item, in order. key returns an item's key, create
// its new element, and fill updates the element. Elements of remaining items are kept, and
// keep the focus if they are moved.
export function sync(parent, items, { key, create, fill }) {
  const wanted = new Set(items.map(key));
  const kept = new Map();
  for (const child of [...parent.children]) {
    if (wanted.has(child.dataset.key)) kept.set(child.dataset.key, child);
    else child.remove();
  }
  const focused = document.activeElement;
  let next = parent.firstElementChild;
  for (const item of items) {
    const name = key(item);
    let element = kept.get(name);
    if (!element) {
      element = create(item);
      element.dataset.key = name;
    }
    fill(element, item);
    if (element === next) next = next.nextElementSibling;
    else parent.insertBefore(element, next);
  }
  if (document.activeElement !== focused && parent.contains(focused)) focused.focus({ preventScroll: true });
}
