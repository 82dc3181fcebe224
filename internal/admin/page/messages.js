// messages reads server-sent events (the HTML standard, section 9.2) from the body of a
// response and yields {event, data}. It replaces EventSource, which cannot send a token.
export async function* messages(body) {
  let message = { event: "", data: null };
  for await (const line of lines(body.pipeThrough(new TextDecoderStream()))) {
    if (line === "") {
      if (message.data !== null) yield message;
      message = { event: "", data: null };
      continue;
    }
    // A comment is a field without a name.
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (field === "event") message.event = value;
    if (field === "data") message.data = message.data === null ? value : `${message.data}\n${value}`;
  }
}

async function* lines(stream) {
  const reader = stream.getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return; // the rest is an incomplete message
      const from = rest.length;
      rest += value;
      let start = 0;
      for (let end = rest.indexOf("\n", from); end >= 0; end = rest.indexOf("\n", start)) {
        yield rest.slice(start, rest[end - 1] === "\r" ? end - 1 : end);
        start = end + 1;
      }
      rest = rest.slice(start);
    }
  } finally {
    reader.cancel().catch(() => {}); // it may have ended already
  }
}
