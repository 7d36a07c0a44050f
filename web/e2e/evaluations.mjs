// What a person does with evaluations, and with the thumbs under an answer.

import assert from "node:assert/strict";
import { key, url } from "./server.mjs";

const api = async (method, path, body) => {
  const reply = await fetch(url + path, {
    method,
    headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json" },
    body: body && JSON.stringify(body),
  });
  assert.ok(reply.ok, `${method} ${path} gave ${reply.status}: ${reply.ok ? "" : await reply.text()}`);
  return reply.status === 204 ? undefined : reply.json();
};

/** An evaluation of two plans on 60 questions, of which the first hits have their document at the first place. */
function evaluation(name, dataset, hits) {
  const queries = Array.from({ length: 60 }, (_, i) => `q${i}`);
  const of = (plan, n) => ({
    plan,
    metrics: { "hit@1": n / 60, "ndcg@10": n / 60 },
    intervals: { "hit@1": { low: n / 60 - 0.1, high: n / 60 + 0.1 } },
    tokens: 400,
    ms: { p50: 12, p95: 31, mean: 15 },
    stages: [{ stage: "lexical", p50: 2, p95: 3, mean: 2.1 }],
  });
  const difference = { metric: "hit@1", plan: "sluice", against: "naive", difference: 0.02, interval: { low: -0.1, high: 0.2 }, p: 0.6 };
  const report = { dataset, split: "test", documents: 90, failed: 0, queries: 60, unjudged: 0, parallel: 2, differences: [difference] };
  const plans = [of("naive", hits), of("sluice", hits + 1)];
  const figures = [["naive", hits], ["sluice", hits + 1]].map(([plan, n]) => ({
    plan,
    metrics: { "hit@1": queries.map((_, i) => (i < n ? 1 : 0)) },
  }));
  return { name, notes: "Made by a test.", reports: [{ ...report, plans }], figures: [{ queries, plans: figures }] };
}

/** Returns the paths of the pages that it saw. */
export async function evaluations(page, name) {
  const before = await api("POST", "/v1/evaluations", evaluation(`${name} before`, name, 20));
  const after = await api("POST", "/v1/evaluations", evaluation(`${name} after`, name, 44));
  const third = await api("POST", "/v1/evaluations", evaluation(`${name} again`, name, 44));

  await page.goto(`${url}/evaluations`);
  await page.getByRole("link", { name: `${name} after` }).click();
  await page.getByRole("heading", { name: `${name} after`, level: 1 }).waitFor();
  const table = page.getByRole("region", { name: /What is found/ });
  await table.getByRole("row", { name: /sluice/ }).getByText("best", { exact: true }).first().waitFor();
  await table.getByRole("row", { name: /naive/ }).getByText("not significantly different from the best").waitFor();
  await page.getByRole("img", { name: /^hit@1: naive 0.7333, sluice 0.7500/ }).waitFor();

  await page.goto(`${url}/evaluations?dataset=${name}`);
  assert.ok(await page.getByRole("button", { name: "Compare two" }).isDisabled());
  await page.getByLabel(`Compare ${name} before`).check();
  await page.getByLabel(`Compare ${name} after`).check();
  await page.getByRole("button", { name: "Compare two" }).click();
  await page.waitForURL(`${url}/evaluations/${after.id}/compare/${before.id}`);
  const row = page.getByRole("region", { name: `${name}, naive` }).getByRole("row", { name: /hit@1/ });
  await row.getByText("better").waitFor();
  await row.getByText("+0.4000").waitFor();
  await page.getByRole("link", { name: "The other way round" }).click();
  await page.getByRole("region", { name: `${name}, naive` }).getByRole("row", { name: /hit@1/ }).getByText("worse").waitFor();
  await page.goto(`${url}/evaluations/${third.id}/compare/${after.id}`);
  await page.getByRole("row", { name: /hit@1/ }).first().getByText("the same").waitFor();

  await page.goto(`${url}/evaluations/${third.id}`);
  await page.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await page.waitForURL(`${url}/evaluations`);
  await page.getByRole("link", { name: `${name} before` }).waitFor();
  assert.equal(await page.getByRole("link", { name: `${name} again` }).count(), 0);
  return [`/evaluations/${after.id}`, `/evaluations/${after.id}/compare/${before.id}`];
}

/** Rates the answer that the page shows, by its question's id; a reload finds the rating again. */
export async function rate(page, question) {
  const rating = page.getByRole("region", { name: "Your rating" });
  await rating.getByRole("button", { name: "Bad answer" }).click();
  await rating.getByText("Your rating is kept.").waitFor();
  await rating.getByLabel("What is wrong with it?").fill("It leaves out the exceptions.");
  await rating.getByRole("button", { name: "Save the comment" }).click();
  await rating.getByText("Your rating is kept.").waitFor();
  await page.reload();
  await rating.locator('button[aria-pressed="true"]').getByText("Bad answer").waitFor();
  assert.equal(await rating.getByLabel("What is wrong with it?").inputValue(), "It leaves out the exceptions.");
  const { items } = await api("GET", `/v1/ratings?question=${question}`);
  assert.deepEqual(items.map((r) => [r.rating, r.comment]), [["down", "It leaves out the exceptions."]]);

  // By keyboard: the other thumb, which is then taken back.
  await rating.getByRole("button", { name: "Good answer" }).focus();
  await page.keyboard.press("Space");
  await rating.locator('button[aria-pressed="true"]').getByText("Good answer").waitFor();
  await rating.getByText("Your rating is kept.").waitFor();
  await page.keyboard.press("Space");
  await rating.getByText("Your rating is taken back.").waitFor();
  assert.equal(await rating.locator('button[aria-pressed="true"]').count(), 0);
}
