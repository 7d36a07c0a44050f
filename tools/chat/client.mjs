// Asks a server with OpenAI's client for JavaScript; see main.go.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { join } from "node:path";

// The client is where set-up put it, in the folder that CHAT_CLIENTS names.
const installed = createRequire(join(process.env.CHAT_CLIENTS, "package.json")).resolve("openai");
const { default: OpenAI } = await import(pathToFileURL(installed).href);

const [model, question, followUp] = process.argv.slice(2);
const client = new OpenAI();
const seen = { models: [] };
for await (const m of client.models.list()) seen.models.push(m.id);
seen.model = (await client.models.retrieve(`${model}/bm25`)).id;

const cited = (annotations) =>
  (annotations ?? []).map(({ url_citation: u }) => ({ start: u.start_index, end: u.end_index, title: u.title, url: u.url }));
const told = (c) => ({
  content: c.choices[0].message.content,
  finish: c.choices[0].finish_reason,
  annotations: cited(c.choices[0].message.annotations),
  tokens: c.usage.total_tokens,
  standalone: c.sluice.standalone_question ?? "",
});

const messages = [
  { role: "system", content: "Be brief." },
  { role: "user", content: question },
];
const asked = { model, messages, temperature: 0.2, user: "test" };
const answer = await client.chat.completions.create(asked);
seen.answer = told(answer);
seen.follow_up = told(
  await client.chat.completions.create({ ...asked, messages: [...messages, answer.choices[0].message, { role: "user", content: followUp }] }),
);

seen.stream = { content: "", finish: "", annotations: [], tokens: 0, standalone: "" };
for await (const chunk of await client.chat.completions.create({ ...asked, stream: true, stream_options: { include_usage: true } })) {
  if (chunk.usage) seen.stream.tokens = chunk.usage.total_tokens;
  for (const c of chunk.choices) {
    seen.stream.content += c.delta.content ?? "";
    seen.stream.finish = c.finish_reason ?? seen.stream.finish;
    seen.stream.annotations.push(...cited(c.delta.annotations));
  }
}

const refusal = async (request) => {
  try {
    const got = await client.chat.completions.create(request);
    if (request.stream) for await (const _ of got);
  } catch (e) {
    return { status: e.status, type: e.type, param: e.param, code: e.code };
  }
  return { status: 0, type: "nothing was refused", param: "", code: "" };
};
seen.tools = await refusal({ ...asked, tools: [{ type: "function", function: { name: "look" } }] });
seen.no_model = await refusal({ ...asked, model: "nowhere" });
seen.no_model_streamed = await refusal({ ...asked, model: "nowhere", stream: true });
console.log(JSON.stringify(seen));
