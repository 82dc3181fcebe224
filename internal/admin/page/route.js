// The fragment of the page's address selects what it shows, so that it can be linked to:
// #/sinks/NAME, #/appliances/NAME and sections such as #/journal are parts of the overview,
// #/detections/APPLIANCE/ID is the page of a detection.

import { unfold } from "./fold.js";

// to returns the fragment of a target, a list of names.
export const to = (...target) => `#/${target.map(encodeURIComponent).join("/")}`;

// route returns {detection: {appliance, id}} for the page of a detection, else {target}, a
// list of names, which may be empty.
export function route(hash) {
  let names;
  try {
    names = hash.replace(/^#?\/?/, "").split("/").filter(Boolean).map(decodeURIComponent);
  } catch {
    names = []; // it is not escaped as it should be
  }
  const [kind, appliance, id] = names;
  if (kind === "detections" && names.length === 3 && /^\d{1,19}$/.test(id)) return { detection: { appliance, id } };
  return { target: names };
}

// reveal scrolls to the part of the overview that a target names, unfolds it and focuses its
// title.
export function reveal([kind, name]) {
  const section = document.getElementById(kind ?? "");
  if (!section || !["sinks", "appliances", "journal", "tickets", "cluster", "events"].includes(kind)) return;
  const found = name === undefined ? section : section.querySelector(`:scope > [data-key="${CSS.escape(name)}"]`);
  if (!found) return;
  if (name !== undefined) unfold(found);
  found.scrollIntoView({ block: "start" });
  (found.querySelector("h2, h3") ?? found).focus({ preventScroll: true });
}
