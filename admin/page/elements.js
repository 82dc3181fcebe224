// The document, changed in place: an element stays what it is for as long as what
// it shows is there, so that neither the focus nor the place in the page is lost.

// part is the element within root that is named by data-part.
export const part = (root, name) => root.querySelector(`[data-part="${name}"]`);

// make makes the element of a template.
export const make = (template) => document.getElementById(template).content.firstElementChild.cloneNode(true);

// write puts text where it is another: an assistive technology is not told of what
// did not change.
export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// label names an element for those who do not see where it stands.
export function label(element, text) {
  if (element.getAttribute("aria-label") !== text) element.setAttribute("aria-label", text);
}

// tell shows text, or hides the element where there is none.
export function tell(element, text) {
  element.hidden = !text;
  write(element, text || "");
}

// time shows a moment in a <time>, whose title is its full RFC 3339.
export function time(element, rfc3339, format) {
  if (element.dateTime !== rfc3339) {
    element.dateTime = rfc3339;
    element.title = rfc3339;
  }
  write(element, format(rfc3339));
}

// icon shows one of the shapes of the page in an <svg>.
export function icon(svg, shape) {
  const use = svg.firstElementChild;
  if (use.getAttribute("href") !== `#${shape}`) use.setAttribute("href", `#${shape}`);
}

// sync makes the children of parent those of items: key names an item, create makes
// its element, fill fills it. Elements of items that stay are kept.
export function sync(parent, items, { key, create, fill }) {
  const wanted = new Set(items.map(key));
  const kept = new Map();
  for (const child of [...parent.children]) {
    if (wanted.has(child.dataset.key)) kept.set(child.dataset.key, child);
    else child.remove();
  }
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
}
