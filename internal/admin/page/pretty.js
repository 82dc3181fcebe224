// The tokens of JSON: strings, brackets and separators, numbers and literals.
const tokens = /"(?:[^"\\]+|\\.)*"|[[\]{},:]|[^\s[\]{},:"]+/gs;

// raw returns the text of the values of all members with a name at a depth, in their order;
// the members of the outermost object are at depth 1. JSON.parse would round an id above 2^53.
export function raw(json, name, depth) {
  const found = [];
  let level = 0;
  let begin = -1; // of the value that is read
  let previous = "";
  let named = false; // whether the next token but the colon begins a value
  for (const { 0: token, index } of json.matchAll(tokens)) {
    if (begin >= 0 && level === depth && (token === "," || token === "}")) {
      found.push(json.slice(begin, index).trimEnd());
      begin = -1;
    } else if (named && token !== ":") {
      begin = index;
      named = false;
    } else if (begin < 0 && level === depth && token === `"${name}"` && (previous === "{" || previous === ",")) {
      named = true;
    }
    if (token === "{" || token === "[") level++;
    if (token === "}" || token === "]") level--;
    previous = token;
  }
  return found;
}

// pretty indents JSON without changing its numbers and strings: JSON.parse would round
// an id above 2^53.
export function pretty(json) {
  let out = "";
  let depth = 0;
  let opened = false; // whether the previous token opened an object or array
  const line = () => `\n${"  ".repeat(depth)}`;
  for (const [token] of json.matchAll(tokens)) {
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
