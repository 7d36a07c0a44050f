// Takes pictures of every page at two widths, light and dark.
// Usage: node screenshots.mjs FOLDER QUESTION OUT PLACE
// PLACE is an empty folder that a source may read.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { browse, newCollection, open, signIn, uploadFolder } from "./pages.mjs";
import { key, settled, url } from "./server.mjs";

const [folder, question, out, place] = process.argv.slice(2);
mkdirSync(out, { recursive: true });
const name = "handbook";
const browser = await browse();

try {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
  const { page, wrong } = await open(context);
  await page.goto(url);
  const shots = [];
  const shoot = async (file, prepare = async () => {}) => {
    for (const width of [390, 1440]) {
      for (const colorScheme of ["light", "dark"]) {
        await page.emulateMedia({ colorScheme });
        await page.setViewportSize({ width, height: width < 600 ? 844 : 900 });
        await prepare();
        const path = join(out, `${file}-${width}-${colorScheme}.png`);
        await page.screenshot({ path, fullPage: true });
        shots.push(path);
      }
    }
  };
  await page.getByLabel("API key").waitFor();
  await shoot("sign-in");
  await signIn(page);
  await newCollection(page, name);
  const broken = join(out, "broken.pdf");
  writeFileSync(broken, "%PDF-1.7\nnot really");
  await uploadFolder(page, folder);
  const chooser = page.waitForEvent("filechooser");
  await page.getByRole("button", { name: "Files…" }).click();
  await (await chooser).setFiles(broken);
  await page.locator(".uploads .badge.failed").waitFor();
  await page.locator("table.documents .badge.failed").waitFor();
  await shoot("documents");
  await page.goto(`${url}/collections`);
  await page.locator(".card .counts").first().waitFor();
  await shoot("collections");
  await page.goto(`${url}/ask?collection=${name}`);
  await page.getByLabel("Question").fill(question);
  await page.keyboard.press("Enter");
  await page.locator(".sources li").first().waitFor();
  await page.locator(".funnel .stage").nth(1).click();
  await shoot("ask");
  await page.locator(".sources li a").first().click();
  await page.locator("article mark").first().waitFor();
  await shoot("document");
  await page.goto(`${url}/search?collection=${name}`);
  await page.getByLabel("Question").fill(question);
  await page.keyboard.press("Enter");
  await page.locator(".funnel .stage").first().waitFor();
  await shoot("search");
  await page.goto(`${url}/ask?collection=${name}`);
  await page.getByLabel("Question").fill(question);
  await page.getByLabel(/As a job/).check();
  await page.getByRole("button", { name: "Ask", exact: true }).click();
  await page.locator(".badge.answered").waitFor();
  await shoot("job");
  await page.goto(`${url}/jobs`);
  await page.locator("table.documents").waitFor();
  await shoot("jobs");
  await page.goto(`${url}/usage`);
  await page.getByRole("heading", { name: "Today" }).waitFor();
  await shoot("usage");
  await page.goto(`${url}/keys`);
  await page.locator("table.documents").waitFor();
  await shoot("keys");
  await followBoard(page);
  await shoot("source");
  await page.getByText("1 item", { exact: true }).click();
  await page.getByRole("link", { name: "meetings.md" }).click();
  await page.getByText("Who may see it?").click();
  const access = page.getByRole("region", { name: "Who may see it" });
  await access.getByRole("button", { name: /Who/ }).click();
  await page.getByRole("option", { name: /^group/ }).click();
  await access.getByRole("textbox", { name: "Group" }).fill("board");
  await access.getByRole("button", { name: "Explain" }).click();
  await access.getByText(/^yes/).waitFor();
  await shoot("access");
  for (const path of ["sources", "sources/board/principals"]) {
    await page.goto(`${url}/${path}`);
    await page.locator("table.documents").waitFor();
    await shoot(path.split("/").at(-1));
  }
  for (const path of ["plans", "evaluations", "running", "tenants"]) {
    await page.goto(`${url}/${path}`);
    await page.locator("h1").waitFor();
    await page.waitForFunction(settled);
    await shoot(path);
  }
  for (const w of wrong) console.error(w);
  console.log(`${shots.length} pictures in ${out}`);
} finally {
  await browser.close();
}

/** A source that follows the permissions of a folder, with a user who is mapped. */
async function followBoard(page) {
  const board = join(place, "board");
  mkdirSync(board);
  const self = process.getuid();
  writeFileSync(join(board, "meetings.md"), "The board meets on the second Monday of the month.\n", { mode: 0o640 });
  writeFileSync(join(place, "users"), `ann:x:${self}:60002::/:/bin/sh\nbob:x:60001:60002::/:/bin/sh\n`);
  writeFileSync(join(place, "groups"), "staff:x:60002:\n");
  const call = async (method, path, body) => {
    const headers = { Authorization: `Bearer ${key}`, "Content-Type": "application/json" };
    const reply = await fetch(url + path, { method, headers, body: JSON.stringify(body) });
    if (!reply.ok) throw new Error(`${path}: ${reply.status} ${await reply.text()}`);
  };
  await call("POST", "/v1/collections", { name: "board" });
  const settings = { path: board, permissions: "follow", users: join(place, "users"), groups: join(place, "groups") };
  await call("POST", "/v1/sources", { name: "board", collection: "board", driver: "folder", settings });
  await page.goto(`${url}/sources/board`);
  await page.getByRole("region", { name: "Runs" }).locator(".badge.done").waitFor();
  await call("PUT", "/v1/sources/board/mappings", { principal: `uid:${self}`, kind: "group", value: "board" });
}
