// The form for the token, where the bridge wants one.

import { hasToken, keepToken } from "./api.js";
import { tell } from "./elements.js";

const view = document.getElementById("sign-in");
const form = document.getElementById("token-form");
const field = document.getElementById("token");
const bridge = document.getElementById("bridge");

export const isAsked = () => !view.hidden;

// askToken shows the form. refusal says why a token that was sent was refused.
export function askToken(refusal) {
  if (hasToken()) tell(document.getElementById("token-error"), refusal);
  keepToken(null);
  for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close();
  bridge.hidden = true;
  view.hidden = false;
  field.value = "";
  field.focus();
}

// onToken calls signedIn once a token was given.
export function onToken(signedIn) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    keepToken(field.value.trim());
    tell(document.getElementById("token-error"), "");
    view.hidden = true;
    signedIn();
  });
  // What was shown goes away with the page.
  document.getElementById("sign-out").addEventListener("click", () => {
    keepToken(null);
    location.reload();
  });
}
