// pretty indents JSON without changing its numbers and strings: JSON.parse would round
// an id above 2^53.
export function pretty(json) {
  let out = "";
  let depth = 0;
  let opened = false; // whether the previous token opened an object or array
  const line = () => `\n${"  ".repeat(depth)}`;
  // The tokens: strings, brackets and separators, numbers and literals.
  for (const [token] of json.matchAll(/"(?:[^"\\]+|\\.)*"|[[\]{},:]|[^\s[\]{},:"]+/gs)) {
    const closes = token === "}" || token === "]";
    if (closes) depth--;
    if (opened !== closes) out += line(); // {} and [] stay on one line
    opened = token === "{" || token === "[";
    if (opened) depth++;
    out += token === ":" ? ": " : token;
    if (token === ",") out += line();
  }
  return out;
}
