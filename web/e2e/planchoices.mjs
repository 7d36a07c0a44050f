// Has plans measured on a collection, cancels that, and uses the plan that is proposed.

import assert from "node:assert/strict";
import { key, url } from "./server.mjs";

/** Measures plans on a collection that has text to make questions of. */
export async function planChoices(page, collection, step) {
  step("plans are measured on the collection, which is cancelled");
  const section = page.getByText("Which plan is best here?");
  await page.goto(`${url}/collections/${collection}`);
  await section.click();
  await page.getByText("No plan was measured on this collection yet.").waitFor();
  await page.getByRole("button", { name: "Measure the plans" }).click();
  await page.getByRole("button", { name: "Cancel measuring" }).click();
  await page.getByText("It was cancelled.").waitFor();

  step("what was measured is a table, and the plan that is proposed is used");
  const few = await fetch(`${url}/v1/collections/${collection}/plan-choices`, {
    method: "POST",
    headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json" },
    body: JSON.stringify({ plans: ["bm25", "hybrid"], questions_limit: 4 }),
  });
  assert.equal(few.status, 202, await few.text());
  await page.reload();
  await section.click();
  const table = page.getByRole("group", { name: "Plans measured" });
  await table.waitFor();
  assert.equal(await table.getByRole("row").count(), 3);
  const use = page.getByRole("button", { name: /^Use .* here$/ });
  const proposed = (await use.textContent()).trim().replace(/^Use (.*) here$/, "$1");
  await use.click();
  await page.getByText(`${proposed} was applied.`).waitFor();
  assert.equal(await use.count(), 0);
  const has = await fetch(`${url}/v1/collections/${collection}`, { headers: { Authorization: `Bearer ${key}` } }).then((r) => r.json());
  assert.equal(has.plan, proposed);
}
