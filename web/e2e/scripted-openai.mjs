// A scripted stand-in for an OpenAI-compatible server, which cannot be had here. It answers with
// the first passage's first line that has the words up to, but of requests that speak of holding it
// says the first words, if they are streamed, and no more until their client goes; a GET tells how
// many are held. It prints its base URL, and ends with its input.

import { createServer } from "node:http";

/** What a model would say to a prompt for an answer: one sentence of a passage, with itself as its proof. */
function answer(prompt) {
  for (const [, number, text] of prompt.matchAll(/\nPassage (\d+)[^\n]*\n--- begin \S+ ---\n([\s\S]*?)\n--- end/g)) {
    const quote = text.match(/[A-Z][^.\n]* up to [^.\n]*\./)?.[0];
    if (quote) return { answer: quote, citations: [{ sentence: 1, passage: Number(number), quote }] };
  }
  return { answer: "", citations: [] };
}

const reply = ({ model, messages }) => ({
  id: "scripted",
  object: "chat.completion",
  created: 0,
  model,
  choices: [
    {
      index: 0,
      finish_reason: "stop",
      message: { role: "assistant", content: JSON.stringify(answer(messages.at(-1).content)) },
    },
  ],
  usage: { prompt_tokens: 100, completion_tokens: 10, total_tokens: 110 },
});

/** How many are left on hold. */
let holding = 0;

function hold(response, whole, stream) {
  holding += 1;
  response.on("close", () => {
    holding -= 1;
  });
  const begun = { ...whole, choices: [{ index: 0, delta: { content: '{"answer": "One moment, while ' } }] };
  if (stream) response.writeHead(200, { "Content-Type": "text/event-stream" }).write(`data: ${JSON.stringify(begun)}\n\n`);
}

const server = createServer((request, response) => {
  if (request.method === "GET") return response.end(String(holding));
  let body = "";
  request.on("data", (part) => {
    body += part;
  });
  request.on("end", () => {
    const asked = JSON.parse(body);
    const whole = reply(asked);
    if (/on hold/.test(body)) return hold(response, whole, asked.stream);
    if (!asked.stream) {
      response.writeHead(200, { "Content-Type": "application/json" }).end(JSON.stringify(whole));
      return;
    }
    const [{ message, ...choice }] = whole.choices;
    const chunk = { ...whole, object: "chat.completion.chunk", choices: [{ ...choice, delta: message }] };
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    response.end(`data: ${JSON.stringify(chunk)}\n\ndata: [DONE]\n\n`);
  });
});
server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}/v1`));
process.stdin.resume().on("end", () => process.exit(0));
