// Asking the server. Questions are answered by server-sent events, so that progress can be told; leaving a
// question (the signal) closes the connection, and the server drops the work.

export class Refused extends Error {
  constructor(status, message, retryAfter = null) {
    super(message);
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

export const token = {
  get: () => sessionStorage.getItem("unmask-token"),
  set: (value) => sessionStorage.setItem("unmask-token", value),
};

const headers = (more) => (token.get() ? { ...more, Authorization: `Bearer ${token.get()}` } : more);

export async function get(path) {
  const response = await fetch(path, { headers: headers({ Accept: "application/json" }) });
  if (!response.ok) throw await refused(response);
  return response.json();
}

export async function ask(name, body, { signal, onProgress = () => {} } = {}) {
  let response;
  try {
    response = await fetch(`/v1/${name}`, {
      method: "POST",
      signal,
      headers: headers({ "Content-Type": "application/json", Accept: "text/event-stream" }),
      body: JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "the server can't be reached: is it still running?");
  }
  if (!response.ok) throw await refused(response);
  for await (const [kind, told] of events(response.body)) {
    if (kind === "progress") onProgress(told);
    if (kind === "answer") return told;
    if (kind === "error") throw new Refused(told.status, told.error);
  }
  throw new Refused(0, "the server stopped in mid-answer: try again");
}

async function refused(response) {
  let message = `the server answered ${response.status}`;
  try {
    message = (await response.json()).error || message;
  } catch { /* not ours: a proxy's page */ }
  return new Refused(response.status, message, Number(response.headers.get("Retry-After")) || null);
}

async function* events(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    waiting += value;
    const parts = waiting.split("\n\n");
    waiting = parts.pop();
    for (const part of parts) {
      const kind = /^event: (.*)$/m.exec(part);
      const data = /^data: (.*)$/m.exec(part);
      if (kind && data) yield [kind[1], JSON.parse(data[1])];
    }
  }
}
