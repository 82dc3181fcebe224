// The sign-in form, shown if the bridge requires a token.

import { hasToken, keepToken } from "./api.js";
import { writeOrHide } from "./elements.js";

const view = document.getElementById("sign-in");
const form = document.getElementById("token-form");
const field = document.getElementById("token");
const bridge = document.getElementById("bridge");

export const isSigningIn = () => !view.hidden;

// signIn shows the form and deletes the stored token. If there was one, refusal, the
// reason why it was rejected, is shown.
export function signIn(refusal) {
  if (hasToken()) writeOrHide(document.getElementById("token-error"), refusal);
  keepToken(null);
  for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close();
  bridge.hidden = true;
  view.hidden = false;
  field.value = "";
  field.focus();
}

// onToken calls signedIn when the user enters a token.
export function onToken(signedIn) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    keepToken(field.value.trim());
    writeOrHide(document.getElementById("token-error"), "");
    view.hidden = true;
    signedIn();
  });
  // Reloading removes all data from the page.
  document.getElementById("sign-out").addEventListener("click", () => {
    keepToken(null);
    location.reload();
  });
}
