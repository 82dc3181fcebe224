// The admin API, as this page asks it.

const tokenKey = "ndrbridge.token";

// Problem is an answer that says no, in the words of its problem document.
export class Problem extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

export const hasToken = () => sessionStorage.getItem(tokenKey) !== null;

// keepToken keeps the token for this tab alone, until it is closed; null forgets it.
export function keepToken(token) {
  if (token === null) sessionStorage.removeItem(tokenKey);
  else sessionStorage.setItem(tokenKey, token);
}

// open asks, and returns the answer once it is known to be good. signal ends it.
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

// text, json and send give up after a while: what hangs is no answer.
const patience = () => AbortSignal.timeout(15_000);

export const text = async (path) => (await open(path, { signal: patience() })).text();

export const json = async (path) => (await open(path, { signal: patience() })).json();

// send has something done. It returns the answer's JSON, or null where it has none.
export async function send(method, path, body) {
  const answer = await open(path, { method, body, signal: patience() });
  return answer.status === 204 ? null : answer.json();
}

// inWords says for a person why asking failed.
export function inWords(error) {
  if (error instanceof Problem) return error.message;
  if (error.name === "TimeoutError") return "there was no answer in time; it may be done all the same";
  return "the bridge does not answer";
}

// pathOf joins what names something in the API.
export const pathOf = (...parts) => parts.map(encodeURIComponent).join("/");
