// pretty breaks JSON into indented lines and leaves every number and string as it
// is written: JSON.parse would round an id above 2^53.
export function pretty(json) {
  let out = "";
  let depth = 0;
  let opened = false; // by the token before
  const line = () => `\n${"  ".repeat(depth)}`;
  // A string, what opens or closes, what separates, or a number or word.
  for (const [token] of json.matchAll(/"(?:[^"\\]+|\\.)*"|[[\]{},:]|[^\s[\]{},:"]+/gs)) {
    const closes = token === "}" || token === "]";
    if (closes) depth--;
    if (opened !== closes) out += line(); // what is empty stays on one line
    opened = token === "{" || token === "[";
    if (opened) depth++;
    out += token === ":" ? ": " : token;
    if (token === ",") out += line();
  }
  return out;
}
