// Does what a person does with the back office, in a browser, against a running server.
// Usage: node back-office.mjs FOLDER QUESTION

import assert from "node:assert/strict";
import { choices } from "./choices.mjs";
import { evaluations, rate } from "./evaluations.mjs";
import { original } from "./original.mjs";
import { barriers, browse, newCollection, open, signIn, uploadFolder } from "./pages.mjs";
import { planChoices } from "./planchoices.mjs";
import { running } from "./running.mjs";
import { key, overflow, pages, settled, url, windows } from "./server.mjs";

const [folder, question] = process.argv.slice(2);
const name = `browser-${Date.now()}`;
const browser = await browse();
const step = (text) => console.log(`- ${text}`);

try {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
  const { page, wrong } = await open(context);

  step("a wrong key is refused, the right one is not, and no script can read the cookie");
  await page.goto(`${url}/collections`);
  await page.getByLabel("API key").fill("slu_wrong");
  await page.keyboard.press("Enter");
  await page.getByRole("alert").getByText("unknown, revoked or expired").waitFor();
  await signIn(page);
  const cookie = (await context.cookies(`${url}/v1`)).find((c) => c.name === "sluice_session");
  assert.ok(cookie?.httpOnly && cookie.sameSite === "Strict" && !cookie.value.includes(key));
  assert.equal(await page.evaluate(() => document.cookie), "");
  assert.equal(await page.evaluate(() => fetch("/v1/collections", { method: "POST", body: "{}" }).then((r) => r.status)), 403);

  step("a folder is uploaded, and becomes ready");
  await newCollection(page, name);
  const told = await uploadFolder(page, folder);
  console.log(`  ${told}`);
  const ready = Number.parseInt(told, 10);
  const lastReady = page.locator("table.documents .badge.ready").nth(ready - 1);
  await lastReady.waitFor();

  step("a reload shows the server's state");
  await page.reload();
  await page.getByText(told).waitFor();
  await lastReady.waitFor();

  step("a broken file says what is wrong with it, and is tried again");
  const chooser = page.waitForEvent("filechooser");
  await page.getByRole("button", { name: "Files…" }).click();
  await (await chooser).setFiles({ name: "broken.pdf", mimeType: "application/pdf", buffer: Buffer.from("%PDF-1.7\nno") });
  await page.locator(".uploads .badge.failed").waitFor();
  await page.locator("table.documents").getByText("The PDF is damaged").waitFor();
  await page.locator("table.documents").getByRole("link", { name: "broken.pdf" }).click();
  await page.getByRole("button", { name: "Retry" }).click();
  await page.locator("summary").filter({ hasText: /version/ }).click();
  await page.getByText(/attempt 2/).waitFor();
  await page.locator(".facts .badge.failed").waitFor();
  await page.goto(`${url}/collections/${name}`);

  step("documents are found by state and by name, and put in order");
  await page.getByRole("button", { name: /State/ }).click();
  await page.getByRole("option", { name: "cancelled" }).click();
  await page.getByText("No document is like that.").waitFor();
  assert.equal(new URL(page.url()).searchParams.get("state"), "cancelled");
  await page.goto(`${url}/collections/${name}`);
  await page.getByLabel("Name contains").fill("no-such-thing");
  await page.getByText("No document is like that.").waitFor();
  await page.goto(`${url}/collections/${name}?name=BROKEN`);
  await page.locator("table.documents").getByRole("link", { name: "broken.pdf" }).waitFor();
  assert.equal(await page.locator("table.documents tbody tr").count(), 1);
  await page.goto(`${url}/collections/${name}`);
  await page.getByRole("button", { name: /Order/ }).click();
  await page.getByRole("option", { name: "by name" }).click();
  await page.waitForURL(/sort=name/);
  await lastReady.waitFor();
  const shown = await page.locator("table.documents td.wide a").allTextContents();
  const byName = await page.waitForFunction(() => {
    const names = [...document.querySelectorAll("table.documents td.wide a")].map((a) => a.textContent);
    return names.every((n, i) => i === 0 || names[i - 1] < n) && names.length;
  });
  assert.equal(await byName.jsonValue(), shown.length);

  step("a question is asked, and its citation opens with the quote highlighted");
  await page.goto(`${url}/ask?collection=${name}`);
  await page.getByLabel("Question").fill(question);
  await page.keyboard.press("Enter");
  const source = page.locator(".sources li").first();
  await source.waitFor();
  const quote = (await source.locator("blockquote").textContent()) ?? "";
  console.log(`  ${(await page.locator(".answer-text").first().textContent())?.slice(0, 120)}`);
  const band = page.locator(".funnel .stage").nth(1); // the first one spells, and keeps nothing
  await band.click();
  assert.equal(await band.getAttribute("aria-expanded"), "true");
  await page.locator(".stage-detail table tbody tr").first().waitFor();
  await source.getByRole("link").click();
  await page.locator("article mark").first().waitFor();
  const cited = page.url().slice(url.length);
  const marked = (await page.locator("article mark").allTextContents()).join("");
  assert.equal(marked, quote, "what is marked is not what was quoted");

  step("an answer that was waited for has a link that lasts, too");
  await page.goto(`${url}/ask?collection=${name}`);
  await page.getByRole("region", { name: "Asked before" }).getByRole("link", { name: question }).first().click();
  await page.waitForURL(/\/questions\/./);
  const asked = page.url();
  await page.locator(".answer").waitFor();
  await page.reload();
  await page.locator(".sources li").first().waitFor();
  await page.getByRole("link", { name: "Ask it again" }).click();
  await page.getByLabel("Question").waitFor();
  assert.equal(await page.getByLabel("Question").inputValue(), question);

  step("an answer is rated with a comment, and the rating taken back, by keyboard");
  await page.goto(asked);
  await page.locator(".answer").waitFor();
  await rate(page, asked.split("/").at(-1));

  step("evaluations are shown, compared, and deleted");
  const measured = await evaluations(page, name);

  step("a filter leaves out what is not so");
  await page.goto(`${url}/ask?collection=${name}`);
  await page.getByLabel("Question").fill(question);
  await page.getByRole("button", { name: "Add a filter" }).click();
  await page.getByLabel("Metadata").fill("year");
  await page.getByLabel("this").fill("1066");
  await page.getByRole("button", { name: "Ask", exact: true }).click();
  await page.locator(".answer.unsupported").waitFor();
  assert.match(new URL(page.url()).searchParams.get("filter") ?? "", /1066/);

  await choices(page, name, question, step);

  step("a job has a link that lasts");
  await page.goto(`${url}/ask?collection=${name}`);
  await page.getByLabel("Question").fill(question);
  await page.getByLabel(/As a job/).check();
  await page.getByRole("button", { name: "Ask", exact: true }).click();
  await page.waitForURL(/\/jobs\/./);
  await page.locator(".badge.answered").waitFor();
  const job = page.url();
  await page.goto(`${url}/jobs`);
  await page.getByRole("link", { name: question }).first().click();
  assert.equal(page.url(), job);
  await page.locator(".answer").waitFor();

  step("a search draws its funnel");
  await page.goto(`${url}/search?collection=${name}`);
  await page.getByLabel("Question").fill(question);
  await page.getByRole("button", { name: "Search", exact: true }).click();
  await page.locator(".funnel .stage").first().waitFor();
  assert.ok((await page.locator(".sources li").count()) > 0);

  step("two plans are searched by side by side");
  await page.getByRole("button", { name: /Beside it/ }).click();
  await page.getByRole("option", { name: /^bm25/ }).click();
  await page.getByRole("button", { name: "Search", exact: true }).click();
  await page.locator(".beside .funnel").nth(1).waitFor();
  await page.getByText(/by the plan bm25/).waitFor();

  step("a plan is changed, told what is wrong with it, tried, kept, named by a search, and deleted");
  await page.goto(`${url}/plans?plan=naive&collection=${name}`);
  const yaml = page.getByLabel("YAML");
  const text = await yaml.inputValue();
  assert.match(text, /^name: naive$/m);
  await yaml.fill(text.replace(/^name: naive$/m, "name: tried\ncolour: red"));
  await page.locator(".code-field .reason").getByText("colour").waitFor();
  const wrongLine = await page.locator(".code-editor .numbers .wrong").textContent();
  assert.equal(text.split("\n").indexOf("name: naive") + 2, Number(wrongLine));
  assert.ok(await page.getByRole("button", { name: /^Save/ }).isDisabled());
  await yaml.fill(text.replace(/^name: naive$/m, "name: tried"));
  await page.getByText("It can be run.").waitFor();
  await page.getByLabel("Question").fill(question);
  await page.getByRole("button", { name: "Run it" }).click();
  await page.locator(".funnel .stage").first().waitFor();
  await page.getByText(/by the plan tried/).waitFor();
  await page.getByRole("button", { name: "Save as tried" }).click();
  await page.waitForURL(/plan=tried/);
  await page.goto(`${url}/search?collection=${name}&plan=tried`);
  await page.getByLabel("Question").fill(question);
  await page.getByRole("button", { name: "Search", exact: true }).click();
  await page.getByText(/by the plan tried/).waitFor();
  await page.goto(`${url}/plans`);
  const card = page.locator(".card").filter({ has: page.getByRole("link", { name: "tried" }) });
  await card.getByText("your own").waitFor();
  await card.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete it" }).click();
  await card.waitFor({ state: "detached" });

  await planChoices(page, name, step);

  step("a key is made, and revoked");
  await page.goto(`${url}/keys`);
  await page.getByRole("button", { name: "New key" }).click();
  await page.getByRole("dialog").getByLabel("Name").fill(name);
  await page.getByRole("button", { name: "Make it" }).click();
  assert.match((await page.locator(".made").textContent()) ?? "", /^slu_/);
  await page.getByRole("button", { name: "Done" }).click();
  const row = page.getByRole("row").filter({ hasText: name });
  await row.getByRole("button", { name: "Revoke" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
  await row.getByText(/revoked/).waitFor();
  await page.goto(`${url}/usage`);
  await page.getByRole("heading", { name: "Today" }).waitFor();

  step("what was asked, and what it showed, is in the audit log");
  await page.goto(`${url}/audit`);
  await page.getByLabel("Action").fill("ask");
  await page.getByLabel("Collection").fill(name);
  await page.getByRole("button", { name: "Show", exact: true }).click();
  const read = page.getByRole("row").filter({ hasText: question }).first();
  await read.getByRole("cell", { name: "200", exact: true }).waitFor();
  await read.getByRole("link", { name: "document 1" }).waitFor();
  await page.getByLabel("Action").fill("no-such-action");
  await page.keyboard.press("Enter");
  await page.getByText("Nobody read anything like that.").waitFor();

  await running(page, name, step);

  const onPage = await original(page, step);

  step("selected documents are deleted, by keyboard");
  await page.goto(`${url}/collections/${name}`);
  const box = page.locator("table.documents tbody input[type=checkbox]").last();
  await box.focus();
  await page.keyboard.press("Space");
  await page.getByText("1 document selected").waitFor();
  await page.locator(".bulk").getByRole("button", { name: "Delete" }).focus();
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").waitFor();
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await page.getByText("1 document selected").waitFor({ state: "detached" });

  step("no page is wider than its window, be it a phone's or a wall's");
  const all = [...pages(name), ...measured, job.slice(url.length), asked.slice(url.length), cited, onPage];
  for (const size of windows) {
    await page.setViewportSize(size);
    for (const path of all) {
      await page.goto(url + path);
      await page.locator("h1").waitFor();
      await page.waitForFunction(settled);
      const over = await page.evaluate(overflow);
      assert.ok(over <= 0, `${path} is ${over} px too wide at ${size.width}`);
    }
  }

  step("no page keeps people out, light or dark");
  await page.setViewportSize({ width: 1280, height: 900 });
  const found = [];
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    for (const path of all) {
      await page.goto(url + path);
      await page.locator("h1").waitFor();
      await page.waitForFunction(settled);
      for (const band of (await page.locator(".funnel .stage").all()).slice(0, 1)) await band.click();
      found.push(...(await barriers(page)));
    }
  }
  assert.deepEqual(found, []);

  step("what a key may not do is not shown");
  const made = await fetch(`${url}/v1/keys`, {
    method: "POST",
    headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json" },
    body: JSON.stringify({ name: "reader", scopes: ["query"] }),
  }).then((r) => r.json());
  const other = await browser.newContext();
  const reader = (await open(other)).page;
  await signIn(reader, made.api_key);
  assert.equal(await reader.getByRole("button", { name: "New collection" }).count(), 0);
  await reader.goto(`${url}/collections/${name}`);
  await reader.locator("table.documents").waitFor();
  assert.equal(await reader.locator(".drop, input[type=checkbox], .action.danger").count(), 0);

  step("a key of one collection is shown what it may do there");
  const limited = await fetch(`${url}/v1/keys`, {
    method: "POST",
    headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json" },
    body: JSON.stringify({ name: "contributor", scopes: ["query", "ingest"], collections: [name] }),
  }).then((r) => r.json());
  const fourth = await browser.newContext();
  const contributor = (await open(fourth)).page;
  await signIn(contributor, limited.api_key);
  await contributor.getByRole("link", { name, exact: true }).click();
  await contributor.locator("table.documents").waitFor();
  assert.ok((await contributor.locator(".drop, input[type=checkbox]").count()) > 1);
  assert.equal(await contributor.getByRole("button", { name: "New collection" }).count(), 0);
  const menu = contributor.getByRole("navigation", { name: "Main" });
  assert.deepEqual(await menu.getByRole("link").allTextContents(), ["Collections", "Ask", "Search", "Jobs", "Plans"]);
  await contributor.getByRole("link", { name: "contributor" }).click();
  await contributor.getByText(`You may: query, ingest in ${name}.`).waitFor();

  step("another tenant sees nothing of it, in the same browser");
  const tenant = await fetch(`${url}/v1/tenants`, {
    method: "POST",
    headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json" },
    body: JSON.stringify({ name }),
  }).then((r) => r.json());
  const third = await browser.newContext();
  const stranger = (await open(third)).page;
  await signIn(stranger);
  await stranger.getByRole("link", { name }).waitFor();
  await stranger.getByRole("button", { name: "Sign out" }).click();
  await stranger.getByLabel("API key").waitFor(); // to leave the page before ends the request
  await signIn(stranger, tenant.api_key);
  await stranger.getByText("There are no collections yet.").waitFor();
  for (const path of [cited, job.slice(url.length), `/collections/${name}`]) {
    await stranger.goto(url + path);
    await stranger.locator("main").getByRole("alert").waitFor();
    const shown = (await stranger.locator("main").textContent()) ?? "";
    assert.ok(!shown.includes("annual leave") && !shown.includes(question), `${path} shows ${shown}`);
  }

  step("a revoked key's session ends");
  await fetch(`${url}/v1/keys/${made.id}`, { method: "DELETE", headers: { Authorization: `Bearer ${key}` } });
  await reader.goto(`${url}/jobs`);
  await reader.getByLabel("API key").waitFor();

  step("signing out ends it");
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("API key").waitFor();
  assert.equal(await page.evaluate(() => fetch("/v1/whoami").then((r) => r.status)), 401);
  assert.equal(await page.evaluate(() => sessionStorage.getItem("uploads") ?? "[]"), "[]");

  // A plan that is wrong is refused by 422: the browser tells of it, as of the cookie's 403.
  const serious = wrong.filter((w) => !/status of (403|422)/.test(w));
  assert.deepEqual(serious, []);
  console.log("all of it works");
} finally {
  await browser.close();
}
