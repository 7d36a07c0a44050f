// Keeps a collection in step with a folder, and its permissions too, as an admin does it.
// Usage: node sources.mjs FOLDER, which is empty, and which the server may read.

import assert from "node:assert/strict";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { barriers, browse, newCollection, open, signIn } from "./pages.mjs";
import { key, overflow, settled, url, windows } from "./server.mjs";

const [root] = process.argv.slice(2);
const step = (text) => console.log(`- ${text}`);
const browser = await browse();

const folder = join(root, "handbook");
mkdirSync(folder);
for (const n of [1, 2, 3, 4, 5]) writeFileSync(join(folder, `${n}.md`), `# Part ${n}\n\nThe pump of part ${n} is looked at every ${n + 1} weeks.\n`);
writeFileSync(join(folder, "notes.tmp"), "not for others\n");

const row = (at, name) => at.getByRole("row").filter({ hasText: name });
/** What is said to be wrong with a field. */
const wrongWith = (page, label) => page.locator(".field", { has: page.getByLabel(label, { exact: true }) }).locator(".wrong");
const button = (at, name) => at.getByRole("button", { name, exact: true });
/** The figures of a row, by what stands over them. */
const figure = (at, label) => at.locator(`td[data-label="${label}"]`);

try {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
  const { page, wrong } = await open(context);
  await signIn(page);
  await newCollection(page, "handbook");

  step("a source is made by a form, which says at its field what is wrong");
  await page.getByRole("link", { name: "Sources", exact: true }).click();
  await page.getByText("There are no sources yet.").waitFor();
  await button(page, "New source").click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name").fill("handbook");
  await dialog.getByRole("button", { name: /Collection/ }).click();
  await page.getByRole("option", { name: "handbook" }).click();
  await dialog.getByLabel("Exclude").fill("*.tmp");
  await dialog.getByLabel("Minutes between two runs").fill("0");
  await dialog.getByText("Paused at first").click();
  await button(dialog, "Make it").click();
  const path = dialog.getByLabel("path", { exact: true });
  await wrongWith(page, "path").getByText(/is missing/).waitFor();
  assert.equal(await path.getAttribute("aria-invalid"), "true");
  await path.fill(folder);
  await dialog.getByLabel("Minutes between two runs").fill("often");
  await button(dialog, "Make it").click();
  await wrongWith(page, "Minutes between two runs").getByText("a whole number").waitFor();
  await dialog.getByLabel("Minutes between two runs").fill("0");
  await button(dialog, "Make it").click();
  await page.getByRole("heading", { name: "handbook", level: 1 }).waitFor();
  await page.locator("main .badge.paused").waitFor();

  step("a preview shows what would come, and writes nothing");
  await button(page, "Preview").click();
  const preview = page.getByRole("region", { name: "Preview" });
  await figure(row(preview, "5.md"), "Would be").getByText("added").waitFor();
  assert.equal(await figure(preview, "Would be").count(), 5);
  await page.getByText("It has not run yet.").waitFor();
  await button(page, "Preview").click();

  step("it is resumed, runs, and its counts are shown");
  await button(page, "Resume").click();
  const runs = page.getByRole("region", { name: "Runs" });
  await runs.locator(".badge.done").waitFor();
  const first = runs.locator("tbody tr").first();
  assert.deepEqual(await counts(first), { Seen: "5", Added: "5", Changed: "0", Deleted: "0", Skipped: "1" });
  await row(page.getByRole("region", { name: "Skipped" }), "notes.tmp").getByText(/exclude/).waitFor();
  await page.goto(`${url}/sources`);
  const listed = row(page, "handbook");
  assert.deepEqual(await counts(listed), { Seen: "5", Added: "5", Changed: "0", Deleted: "0", Skipped: "1" });
  await listed.getByRole("link", { name: "handbook" }).first().click();
  await page.getByText("5 items", { exact: true }).click();
  await page.getByRole("link", { name: "3.md" }).waitFor();

  step("what it is made of is changed");
  await button(page, "Change").click();
  assert.equal(await dialog.getByLabel("Exclude").inputValue(), "*.tmp");
  await dialog.getByLabel("Exclude").fill("*.tmp\n[");
  await button(dialog, "Save").click();
  await wrongWith(page, "Exclude").waitFor();
  await dialog.getByLabel("Exclude").fill("*.tmp\n5.md");
  await dialog.getByLabel("Per cent that may be gone at once").fill("30");
  await button(dialog, "Save").click();
  await dialog.waitFor({ state: "detached" });
  await page.getByRole("region", { name: "Settings" }).getByText("*.tmp, 5.md").waitFor();
  await figure(runs.locator("tbody tr").first(), "Deleted").getByText("1", { exact: true }).waitFor();

  step("much is gone at once: nothing is deleted before somebody has confirmed it");
  for (const n of [3, 4]) rmSync(join(folder, `${n}.md`));
  await page.locator("main .badge.waiting").waitFor();
  await button(page, "Run now").click();
  const asking = page.getByRole("region", { name: "Much is gone" });
  await asking.getByText("2 items, where there were 4").waitFor();
  await page.getByRole("region", { name: "Settings" }).locator("div", { hasText: /^Documents4$/ }).waitFor();
  await button(asking, "Delete what is gone").click();
  await button(dialog, "Delete them").click();
  await asking.waitFor({ state: "detached" });
  await page.getByRole("region", { name: "Settings" }).locator("div", { hasText: /^Documents2$/ }).waitFor();
  await figure(runs.locator("tbody tr").first(), "Deleted").getByText("2", { exact: true }).waitFor();

  step("it is paused, and removed with its documents, by keyboard");
  await button(page, "Pause").focus();
  await page.keyboard.press("Enter");
  await page.locator("main .badge.paused").waitFor();
  await button(page, "Remove").focus();
  await page.keyboard.press("Enter");
  await dialog.getByText("Its 2 documents are deleted with it.").waitFor();
  await button(dialog, "Remove it").focus();
  await page.keyboard.press("Enter");
  await page.getByText("There are no sources yet.").waitFor();

  assert.deepEqual(wrong.filter((w) => !/status of 422/.test(w)), []);
  console.log("all of it works");
} finally {
  await browser.close();
}

async function counts(at) {
  const out = {};
  for (const label of ["Seen", "Added", "Changed", "Deleted", "Skipped"]) out[label] = await figure(at, label).textContent();
  return out;
}
