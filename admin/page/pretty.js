// pretty breaks JSON into indented lines and leaves every number and string as it
// is written: JSON.parse would round an id above 2^53.
export function pretty(json) {
  let out = "";
  let depth = 0;
  const line = () => `\n${"  ".repeat(depth)}`;
  // A string, what opens or closes, what separates, or a number or word.
  for (const [token] of json.matchAll(/"(?:[^"\\]+|\\.)*"|[[\]{},:]|[^\s[\]{},:"]+/gs)) {
    switch (token) {
      case "{":
      case "[":
        depth++;
        out += token + line();
        break;
      case "}":
      case "]":
        depth--;
        // What is empty stays on one line.
        out = /[[{]\s*$/.test(out.slice(-200 - 2 * depth)) ? out.trimEnd() + token : out + line() + token;
        break;
      case ",":
        out += token + line();
        break;
      case ":":
        out += ": ";
        break;
      default:
        out += token;
    }
  }
  return out;
}
