// A client of the admin API.

const tokenKey = "ndrbridge.token";

// Problem is an error response. Its message is the detail of the problem document.
export class Problem extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

export const hasToken = () => sessionStorage.getItem(tokenKey) !== null;

// keepToken stores the token for this tab until it is closed; null deletes it.
export function keepToken(token) {
  if (token === null) sessionStorage.removeItem(tokenKey);
  else sessionStorage.setItem(tokenKey, token);
}

// open sends a request and returns the response if its status is 2xx; otherwise it
// throws a Problem. signal aborts the request.
export async function open(path, { method = "GET", body, signal } = {}) {
  const headers = {};
  if (hasToken()) headers.Authorization = `Bearer ${sessionStorage.getItem(tokenKey)}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const answer = await fetch(new URL(`api/v1/${path}`, document.baseURI), {
    method,
    headers,
    body: body === undefined ? undefined : JSON.stringify(body),
    signal,
    cache: "no-store",
    redirect: "error",
  });
  if (!answer.ok) throw new Problem(answer.status, await detailOf(answer));
  return answer;
}

async function detailOf(answer) {
  const fallback = `${answer.status} ${answer.statusText}`.trim();
  try {
    return (await answer.json()).detail || fallback;
  } catch {
    return fallback;
  }
}

// text and json abort after 15 s, and send after 60: the bridge waits for targets.
const timeout = (seconds = 15) => AbortSignal.timeout(seconds * 1000);

export const text = async (path) => (await open(path, { signal: timeout() })).text();

export const json = async (path) => (await open(path, { signal: timeout() })).json();

// send sends a command and returns the response's JSON, or null if it has no body.
export async function send(method, path, body) {
  const answer = await open(path, { method, body, signal: timeout(60) });
  return answer.status === 204 ? null : answer.json();
}

// inWords returns a text for people about a failed request.
export function inWords(error) {
  if (error instanceof Problem) return error.message;
  if (error.name === "TimeoutError") return "the bridge did not answer in time; the request may still succeed";
  return "the bridge does not answer";
}

// act carries out what a button does, and shows a failure in the element error. It then calls done.
export async function act(button, error, action, done) {
  if (button.getAttribute("aria-busy") === "true") return;
  button.setAttribute("aria-busy", "true"); // disabling the button would remove its focus
  error.hidden = true;
  try {
    await action();
  } catch (failure) {
    error.textContent = `That failed: ${inWords(failure)}`;
    error.hidden = false;
  }
  await done();
  button.removeAttribute("aria-busy");
}

// pathOf joins and escapes the segments of a path in the API.
export const pathOf = (...parts) => parts.map(encodeURIComponent).join("/");
