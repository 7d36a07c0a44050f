// What runs, tenants, and usage by day, as an operator looks at them.

import assert from "node:assert/strict";
import { deadline, key, url } from "./server.mjs";

/** Looks at what runs. The collection has a document that failed as broken; another one comes while the events are watched. */
export async function running(page, collection, step) {
  step("what runs is shown, of the installation and of the tenant, while it happens");
  await page.goto(`${url}/running`);
  await page.getByRole("region", { name: "Queues" }).getByText("ingest-workers").waitFor();
  await page.getByRole("region", { name: "Services", exact: true }).getByText("sluice.query.search").waitFor();
  await page.getByRole("region", { name: "Model servers" }).getByRole("cell", { name: "encoder" }).waitFor();
  await page.getByRole("region", { name: "Workers" }).getByText("sluice-ingest").first().waitFor();
  await page.getByRole("region", { name: "Failures" }).getByText("broken").waitFor();
  await page.getByRole("button", { name: "Of" }).click();
  await page.getByRole("option", { name: "this tenant" }).click();
  const events = page.getByRole("region", { name: "Events" });
  await events.getByText("What happens from now on").waitFor();
  // The stream may begin a moment after the page says so: what comes before is not told.
  const live = `live-${Date.now()}.txt`;
  const told = events.getByRole("link", { name: live }).first();
  for (let i = 0, until = Date.now() + deadline; !(await told.isVisible()); i++) {
    assert.ok(Date.now() < until, "no event tells of a document");
    await upload(collection, live, `The pump was looked at, for the ${i + 1}th time.`);
    await told.waitFor({ timeout: 3000 }).catch(() => {}); // house:clock the next document tells
  }
  await events.getByText("version.ready").first().waitFor();

  step("a tenant is made, and gets a quota and budgets");
  const name = `acme-${Date.now()}`;
  await page.goto(`${url}/tenants`);
  await page.getByRole("button", { name: "New tenant" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name").fill(name);
  await dialog.getByLabel("Documents at most").fill("1,000");
  await dialog.getByRole("button", { name: "Make it" }).click();
  const made = await dialog.locator(".made").textContent();
  await dialog.getByRole("button", { name: "Done" }).click();
  const card = page.getByRole("region", { name, exact: true });
  await card.getByText("At most 1,000 documents").waitFor();
  await card.getByRole("button", { name: "Budgets" }).click();
  await dialog.getByLabel("Tokens a day").fill("5000");
  await dialog.getByLabel("US dollars a month").fill("some");
  await dialog.getByRole("button", { name: "Save" }).click();
  await dialog.getByText("US dollars a month: a number of 0 or more").waitFor();
  await dialog.getByLabel("US dollars a month").fill("2.5");
  await dialog.getByRole("button", { name: "Save" }).click();
  await dialog.waitFor({ state: "detached" });
  await card.getByRole("button", { name: "Usage" }).click();
  await card.getByText("of 5,000").waitFor();
  await card.getByText("of $2.50").waitFor();
  const seen = await fetch(`${url}/v1/usage`, { headers: { Authorization: `Bearer ${made.trim()}` } }).then((r) => r.json());
  assert.deepEqual(seen.limits, { tokens_per_day: 5000, dollars_per_month: 2.5 });

  step("an operator sees what a tenant has stored, and its keys, and revokes one");
  const stored = card.getByRole("region", { name: "Stored" });
  await stored.getByText("Documents: 0 of 1,000").waitFor();
  await stored.getByText(/Files: 0 .*without a limit/).waitFor();
  await fetch(`${url}/v1/keys`, {
    method: "POST",
    headers: { Authorization: `Bearer ${made.trim()}`, "Content-Type": "application/json" },
    body: JSON.stringify({ name: "crawler", scopes: ["ingest"] }),
  });
  await card.getByRole("button", { name: "Keys" }).click();
  const crawler = card.getByRole("row", { name: /crawler/ });
  await crawler.getByText("never").waitFor();
  assert.equal(await card.getByRole("row", { name: /^admin/ }).getByText("never").count(), 0);
  assert.ok(!(await card.textContent()).includes(made.trim()));
  await crawler.getByRole("button", { name: "Revoke" }).click();
  await dialog.getByRole("button", { name: "Revoke" }).click();
  await crawler.getByText(/^revoked/).waitFor();

  step("usage is shown by day, as a table too");
  await page.goto(`${url}/usage`);
  const calls = page.getByRole("figure", { name: /^Calls/ });
  await calls.getByText("As a table").click();
  await calls.getByRole("cell").first().waitFor();
}

async function upload(collection, id, text) {
  const reply = await fetch(`${url}/v1/collections/${collection}/documents`, {
    method: "POST",
    headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json" },
    body: JSON.stringify({ documents: [{ external_id: id, text }] }),
  });
  assert.ok(reply.ok, `upload ${id}: ${reply.status}`);
}
