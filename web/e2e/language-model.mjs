// Does with the back office what only a slow and costly language model makes one do, against a
// server whose language model is the scripted one beside this file.
// Usage: node language-model.mjs FOLDER QUESTION

import assert from "node:assert/strict";
import { browse, newCollection, open, signIn, uploadFolder } from "./pages.mjs";
import { deadline, key, url } from "./server.mjs";

const [folder, question] = process.argv.slice(2);
const name = `costly-${Date.now()}`;
const browser = await browse();
const step = (text) => console.log(`- ${text}`);

async function call(method, path, body) {
  const headers = { Authorization: `Bearer ${key}`, "Content-Type": "application/json" };
  const response = await fetch(url + path, { method, headers, body: body && JSON.stringify(body) });
  const answer = await response.json();
  assert.ok(response.ok, `${method} ${path}: ${JSON.stringify(answer)}`);
  return answer;
}

/** How many calls the scripted language model holds. */
const held = async () => Number(await (await fetch(process.env.SLUICE_LLM_BASE_URL)).text());

async function noneHeld() {
  for (const until = Date.now() + deadline; (await held()) > 0; ) {
    assert.ok(Date.now() < until, "the call to the language model goes on");
    await new Promise((next) => setTimeout(next, 100));
  }
}

try {
  const { page, wrong } = await open(await browser.newContext({ viewport: { width: 1280, height: 900 } }));
  await signIn(page);
  await newCollection(page, name);
  await uploadFolder(page, folder);
  const ask = async (text, job) => {
    await page.goto(`${url}/ask?collection=${name}`);
    await page.getByLabel("Question").fill(text);
    if (job) await page.getByLabel(/As a job/).check();
    await page.getByRole("button", { name: "Ask", exact: true }).click();
  };

  step("a language model answers");
  await ask(question);
  await page.locator(".answer-text").getByText(/up to five days/).waitFor();

  step("what is stopped while it is made ends at the language model, too");
  await ask(`${question} While I am on hold`);
  await page.locator(".answer-text").getByText("One moment, while").waitFor();
  assert.equal(await held(), 1);
  await page.getByRole("button", { name: "Stop" }).click();
  await page.getByRole("alert").getByText("You stopped it").waitFor();
  await noneHeld();

  step("a job that takes long shows what there is of its answer, and is cancelled");
  await ask(`${question} While I am on hold`, true);
  await page.waitForURL(/\/jobs\/./);
  await page.locator(".badge.running").waitFor();
  await page.locator(".answer-text").getByText("One moment, while").waitFor();
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.locator(".badge.cancelled").waitFor();
  await noneHeld();
  assert.equal(await page.locator(".answer-text").count(), 0);
  assert.equal(await page.getByRole("button", { name: "Cancel" }).count(), 0);
  await page.reload();
  await page.locator(".badge.cancelled").waitFor();

  step("a budget stops the next question, and says so");
  const { tenant_id: tenant } = await call("GET", "/v1/whoami");
  await call("PUT", `/v1/tenants/${tenant}/limits`, { tokens_per_day: 1 });
  await ask(`${question} Again?`);
  const alert = page.locator("main").getByRole("alert");
  await alert.getByText(/tokens/).waitFor();
  console.log(`  ${await alert.textContent()}`);
  await call("PUT", `/v1/tenants/${tenant}/limits`, {});
  await ask(`${question} And now?`);
  await page.locator(".answer-text").getByText(/up to five days/).waitFor();

  const serious = wrong.filter((w) => !/status of 4(02|22|29)/.test(w));
  assert.deepEqual(serious, []);
  console.log("all of it works");
} finally {
  await browser.close();
}
