// Cards that are folded on small screens while all is well; the style sheet hides what is folded.

import { label, part, write } from "./elements.js";

// prepareFold makes a card's button fold and unfold it.
export function prepareFold(card) {
  part(card, "unfold").addEventListener("click", () => {
    if ("open" in card.dataset) delete card.dataset.open;
    else card.dataset.open = "";
    showFold(card);
  });
}

// unfold unfolds a card.
export function unfold(card) {
  card.dataset.open = "";
  showFold(card);
}

// setWell sets whether all is well with what a card shows. name is its name for people.
export function setWell(card, well, name) {
  if (well) card.dataset.well = "";
  else delete card.dataset.well;
  card.dataset.name = name;
  showFold(card);
}

function showFold(card) {
  const open = "open" in card.dataset;
  const button = part(card, "unfold");
  write(button, open ? "Less" : "More");
  label(button, `${open ? "Less" : "More"} about ${card.dataset.name}`);
  button.setAttribute("aria-expanded", String(open));
}
