// Asks which of some choices is the answer, at once and as a job.

import assert from "node:assert/strict";
import { url } from "./server.mjs";

const given = ["None at all", "Up to five days", "Thirty days"];

/** Asks a question of a collection whose answer is the second choice. */
export async function choices(page, collection, question, step) {
  step("one of some choices is the answer, and what is wrong with a choice is said beside it");
  await page.goto(`${url}/ask?collection=${collection}`);
  await page.getByLabel("Question").fill(question);
  await page.getByRole("button", { name: "Give choices" }).click();
  await page.getByLabel("Choice 1", { exact: true }).fill(given[0]);
  await page.getByRole("button", { name: "Ask", exact: true }).click();
  const second = page.getByLabel("Choice 2", { exact: true });
  await page.locator(".field", { has: second }).getByText(/1 to 500/).waitFor();
  assert.equal(await second.getAttribute("aria-invalid"), "true");
  await page.getByRole("button", { name: "Leave out choice 2" }).click();
  await page.getByRole("button", { name: "Ask", exact: true }).click();
  await page.getByText(/^Choices: .*2/).waitFor();
  for (const [i, text] of given.entries()) {
    if (i > 0) await page.getByRole("button", { name: "Add a choice" }).click();
    await page.getByLabel(`Choice ${i + 1}`, { exact: true }).fill(text);
  }
  await page.getByRole("button", { name: "Ask", exact: true }).click();
  await chosen(page);

  step("they are kept with the question, and with a job");
  await page.getByRole("link", { name: /A link to this answer/ }).click();
  await page.waitForURL(/\/questions\/./);
  await chosen(page);
  await page.getByRole("link", { name: "Ask it again" }).click();
  await page.waitForURL(/\/ask\?/);
  assert.equal(await page.getByLabel("Choice 3", { exact: true }).inputValue(), given[2]);
  await page.getByLabel(/As a job/).check();
  await page.getByRole("button", { name: "Ask", exact: true }).click();
  await page.waitForURL(/\/jobs\/./);
  await chosen(page);
}

async function chosen(page) {
  const list = page.getByRole("list", { name: "Choices" });
  const one = list.locator("[aria-current=true]");
  await one.waitFor();
  assert.equal(await one.textContent(), given[1]);
  assert.equal(await list.getByRole("listitem").count(), given.length);
}
