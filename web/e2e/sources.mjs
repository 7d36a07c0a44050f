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

// The documents of the board are this user's, and of a group that nobody is in.
const board = join(root, "board");
const self = `uid:${process.getuid()}`;
mkdirSync(board);
writeFileSync(join(board, "meetings.md"), "The board meets on the second Monday of the month.\n", { mode: 0o640 });
writeFileSync(join(root, "users"), `ann:x:${process.getuid()}:60002::/:/bin/sh\nbob:x:60001:60002::/:/bin/sh\n`);
writeFileSync(join(root, "groups"), "staff:x:60002:bob\n");
const ann = await makeKey("ann", ["query"]);
/** The id of the board's document, when it is known. */
let document = "";

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
  await chooseFolder(page, dialog);
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

  step("what is wrong is told in the list and on the page, and mended");
  await button(page, "Change").click();
  await dialog.getByLabel("path", { exact: true }).fill("/");
  await button(dialog, "Save").click();
  await page.locator("main > p .badge.invalid").waitFor();
  await page.locator("main > .reason").getByText(/path/).waitFor();
  await page.getByRole("link", { name: "Sources", exact: true }).first().click();
  await listed.locator(".badge.invalid").waitFor();
  await listed.locator(".reason").getByText(/path/).waitFor();
  await listed.getByRole("link", { name: "handbook" }).first().click();
  await button(page, "Change").click();
  await dialog.getByLabel("path", { exact: true }).fill(folder);
  await button(dialog, "Save").click();
  await runs.locator("tbody tr").first().locator(".badge.done").waitFor();

  step("much is gone at once: nothing is deleted before somebody has confirmed it");
  for (const n of [3, 4]) rmSync(join(folder, `${n}.md`));
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

  await secrets(page);
  await permissions(page);

  step("a key that is no admin's sees none of these pages");
  const reader = (await open(await browser.newContext())).page;
  await signIn(reader, ann.api_key);
  assert.equal(await reader.getByRole("link", { name: "Sources", exact: true }).count(), 0);
  for (const place of ["/sources", "/sources/board", "/sources/board/principals"]) {
    await reader.goto(url + place);
    await reader.getByText("This needs a key with the admin scope.").waitFor();
  }
  await reader.goto(`${url}/documents/${document}`);
  await reader.getByText("The board meets on the second Monday").first().waitFor();
  assert.equal(await reader.getByText("Who may see it?").count(), 0);

  step("what is taken back holds at once");
  await page.goto(`${url}/sources/board/principals?which=mapped`);
  await button(row(page, self), "Unmap").click();
  await button(dialog, "Unmap").click();
  await page.getByText("No user or group is like that.").waitFor();
  assert.equal(await read(document, ann), 404);
  assert.match(await explained(page), /^no: They have no identity in the source/);

  step("every page fits a phone and a wall, and keeps nobody out, light or dark");
  const found = [];
  for (const place of ["/sources", "/sources/board", "/sources/board/principals", `/documents/${document}`]) {
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      for (const size of windows) {
        await page.setViewportSize(size);
        await page.goto(url + place);
        await page.locator("h1").waitFor();
        await page.waitForFunction(settled);
        await page.locator("main details").evaluateAll((all) => all.forEach((d) => (d.open = true)));
        await page.waitForFunction(settled);
        const over = await page.evaluate(overflow);
        assert.ok(over <= 0, `${place} is ${over} px too wide at ${size.width}`);
        found.push(...(await barriers(page)));
      }
      for (const name of ["New source", "Change", "Map"]) {
        if ((await button(page.locator("main"), name).count()) === 0) continue;
        await page.setViewportSize(windows[0]);
        await button(page.locator("main"), name).first().click();
        await dialog.getByRole("button", { name: "Cancel" }).waitFor();
        assert.ok((await page.evaluate(overflow)) <= 0, `${name} is too wide`);
        found.push(...(await barriers(page)));
        await page.keyboard.press("Escape");
        await dialog.waitFor({ state: "detached" });
      }
    }
  }
  assert.deepEqual(found, []);

  assert.deepEqual(wrong.filter((w) => !/status of (403|422)/.test(w)), []);
  console.log("all of it works");
} finally {
  await browser.close();
}

async function counts(at) {
  const out = {};
  for (const label of ["Seen", "Added", "Changed", "Deleted", "Skipped"]) out[label] = await figure(at, label).textContent();
  return out;
}

/** A server with a source-worker beside it has more kinds of sources than folders. */
async function chooseFolder(page, dialog) {
  await dialog.getByRole("button", { name: /Kind/ }).click();
  await page.getByRole("option", { name: /^folder/ }).click();
}

/** Types a secret in. No kind of source that runs here has one, so that this one is a fake, and so is what the server says of it. */
async function secrets(page) {
  step("a secret is read from a file as it is, and told of by its name alone");
  const driver = { name: "fake", summary: "A fake.", running: true, fields: [{ name: "key", summary: "Of several lines.", required: true, secret: true }] };
  await page.route("**/v1/source-drivers", (r) => r.fulfill({ json: { items: [driver] } }));
  let sent;
  await page.route("**/v1/sources", (r) => {
    if (r.request().method() !== "POST") return r.continue();
    sent = r.request().postDataJSON();
    return r.fulfill({ status: 422, json: { status: 422, title: "Wrong", errors: [{ location: "body.settings.key", message: "is too old" }] } });
  });
  await page.reload();
  await button(page, "New source").click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name").fill("fake");
  await dialog.getByRole("button", { name: /Collection/ }).click();
  await page.getByRole("option", { name: "handbook" }).click();
  assert.equal(await dialog.getByLabel("key", { exact: true }).getAttribute("type"), "password");
  const chooser = page.waitForEvent("filechooser");
  await button(dialog, "key from a file").click();
  await (await chooser).setFiles({ name: "id_ed25519", mimeType: "text/plain", buffer: Buffer.from("first line\nsecond line\n") });
  await dialog.getByText("key from id_ed25519").waitFor();
  await button(dialog, "Make it").click();
  await dialog.locator(".wrong").getByText("is too old").waitFor();
  assert.deepEqual(sent.settings, { key: "first line\nsecond line" });
  assert.ok(!(await dialog.textContent()).includes("second line"));
  await page.unrouteAll();
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
}

/** Follows a folder with its permissions, and maps the user that this script runs as to a key. */
async function permissions(page) {
  const dialog = page.getByRole("dialog");
  await newCollection(page, "board");

  step("a source that follows permissions is made");
  await page.goto(`${url}/sources`);
  await button(page, "New source").click();
  await dialog.getByLabel("Name").fill("board");
  await dialog.getByRole("button", { name: /Collection/ }).click();
  await page.getByRole("option", { name: "board" }).click();
  await chooseFolder(page, dialog);
  await dialog.getByLabel("path", { exact: true }).fill(board);
  await dialog.getByRole("button", { name: /permissions/ }).click();
  await page.getByRole("option", { name: "follow" }).click();
  assert.equal(await dialog.getByLabel("Labels").count(), 0);
  await dialog.getByLabel("users", { exact: true }).fill(join(root, "users"));
  await dialog.getByLabel("groups", { exact: true }).fill(join(root, "groups"));
  await button(dialog, "Make it").click();
  await page.getByRole("region", { name: "Runs" }).locator(".badge.done").waitFor();
  await page.getByText("1 item", { exact: true }).click();
  const link = await page.getByRole("link", { name: "meetings.md" }).getAttribute("href");
  document = link.split("/").at(-1);

  step("nobody sees its documents before somebody is mapped, and the document's page says why");
  await page.getByRole("link", { name: "meetings.md" }).click();
  await page.locator(".facts .badge.ready").waitFor();
  assert.equal(await read(document, ann), 404);
  assert.match(await explained(page), /^no: They have no identity in the source/);

  step("an unmapped user is found, and mapped to a key, after it was asked again");
  await page.getByRole("link", { name: "its source" }).click();
  await page.getByRole("link", { name: "Users and groups" }).click();
  await row(page, "uid:60001").getByText("nobody").waitFor();
  await page.getByRole("button", { name: /Show/ }).click();
  await page.getByRole("option", { name: /^unmapped/ }).click();
  await page.getByLabel("Id, name or mail contains").fill("ANN");
  await row(page, "uid:60001").waitFor({ state: "detached" });
  await button(row(page, self), "Map").click();
  await chooseAnn(page, dialog);
  await button(dialog, "Map").click();
  await dialog.getByText(`key ann (${ann.id}) is ${self} (ann) in board.`).waitFor();
  assert.equal(await read(document, ann), 404);
  await button(dialog, "Map them").click();
  await page.getByText("No user or group is like that.").waitFor();
  await page.getByRole("button", { name: /Show/ }).click();
  await page.getByRole("option", { name: /^mapped/ }).click();
  await row(page, self).getByText(`key ann (${ann.id})`).waitFor();

  step("the key sees the document, and the document's page says by which entry");
  assert.equal(await read(document, ann), 200);
  const said = await explained(page);
  assert.ok(said.startsWith(`yes: The source lets in ${self} (ann), and that includes them.`), said);
  const entries = page.getByRole("region", { name: "Who may see it" }).getByRole("listitem");
  await entries.filter({ hasText: `they are ${self} (ann), by ` }).waitFor();
  await entries.filter({ hasText: `lets in ${self} (ann)` }).getByText("decides").waitFor();
}

/** Chooses the key ann, where somebody is asked for. */
async function chooseAnn(page, at) {
  await at.getByRole("button", { name: /Who/ }).click();
  await page.getByRole("option", { name: /^key/ }).click();
  await at.getByRole("button", { name: /Key/ }).click();
  await page.getByRole("option", { name: /^ann/ }).click();
}

/** What the document's page says of the key ann. */
async function explained(page) {
  await page.goto(`${url}/documents/${document}`);
  await page.getByText("Who may see it?").click();
  const region = page.getByRole("region", { name: "Who may see it" });
  await chooseAnn(page, region);
  await button(region, "Explain").click();
  const said = region.locator("p", { hasText: /^(yes|no): / });
  await said.waitFor();
  return said.textContent();
}

/** The status of a read of a document's text. */
async function read(id, as) {
  const reply = await fetch(`${url}/v1/documents/${id}/sections`, { headers: { Authorization: `Bearer ${as.api_key}` } });
  return reply.status;
}

async function makeKey(name, scopes) {
  const reply = await fetch(`${url}/v1/keys`, {
    method: "POST",
    headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json" },
    body: JSON.stringify({ name, scopes }),
  });
  assert.equal(reply.status, 201);
  return reply.json();
}
