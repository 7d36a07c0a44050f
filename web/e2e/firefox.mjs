// A short walk through the back office in Firefox: what only another engine would show.
// Usage: node firefox.mjs FOLDER QUESTION

import assert from "node:assert/strict";
import { existsSync, readdirSync } from "node:fs";
import path from "node:path";
import puppeteer from "puppeteer-core";
import { asked, drawn, inkUnderMarks, uploadPages } from "./original.mjs";
import { deadline, key, overflow, pages, settled, url, windows } from "./server.mjs";

const places = [process.env.FIREFOX, "/usr/bin/firefox-esr", "/usr/bin/firefox"];
const executablePath = places.find((p) => p && existsSync(p));
if (!executablePath) throw new Error("there is no Firefox: tools/setup firefox installs it, or set FIREFOX");

const [folder, question] = process.argv.slice(2);
const name = `firefox-${Date.now()}`;
const browser = await puppeteer.launch({ browser: "firefox", executablePath, headless: true });
const step = (text) => console.log(`- ${text}`);

try {
  console.log(await browser.version());
  const page = await browser.newPage();
  await page.setViewport({ width: 1280, height: 900 });
  page.setDefaultTimeout(deadline);
  const wrong = [];
  page.on("pageerror", (e) => wrong.push(`error: ${e.message}`));
  page.on("request", (r) => {
    if (new URL(r.url()).origin !== new URL(url).origin && !r.url().startsWith("data:")) wrong.push(`asked ${r.url()}`);
  });
  const heading = (text) => page.waitForFunction((t) => document.querySelector("h1")?.textContent === t, {}, text);

  step("a key signs in");
  await page.goto(url);
  await page.locator("input[type=password]").fill(key);
  await page.keyboard.press("Enter");
  await heading("Collections");

  step("files are uploaded, and become ready");
  await page.locator('::-p-aria([name="New collection"][role="button"])').click();
  await page.locator('[role="dialog"] input').fill(name);
  await page.keyboard.press("Enter");
  await heading(name);
  const files = readdirSync(folder).map((f) => path.join(folder, f));
  const input = await page.waitForSelector(".drop input[type=file]:not([webkitdirectory])");
  await input.uploadFile(...files);
  await page.waitForFunction(
    (n) => document.querySelectorAll("table.documents .badge.ready").length === n,
    {},
    files.length,
  );

  step("a question is answered, and its citation opens with the quote highlighted");
  await page.goto(`${url}/ask?collection=${name}`);
  await page.locator("textarea, input[name=question]").fill(question);
  await page.keyboard.press("Enter");
  await page.waitForSelector(".sources li blockquote");
  const quote = await page.$eval(".sources li blockquote", (e) => e.textContent);
  await page.locator(".sources li a").click();
  await page.waitForSelector("article mark");
  assert.equal(await page.$$eval("article mark", (marks) => marks.map((m) => m.textContent).join("")), quote);

  step("a citation opens its page of a PDF, and what is cited is marked exactly over the ink");
  const { name: paged } = await uploadPages();
  await page.goto(`${url}/collections/${paged}`);
  await page.waitForSelector("table.documents .badge.ready");
  await page.goto(`${url}/ask?collection=${paged}`);
  await page.locator("textarea, input[name=question]").fill(asked[1][0]);
  await page.keyboard.press("Enter");
  await page.locator('.sources li ::-p-aria([name="Page 2"][role="link"])').click();
  await page.waitForFunction(drawn);
  await page.waitForSelector(".sheet-mark");
  const ink = await page.evaluate(inkUnderMarks);
  assert.ok(ink.page === 2 && ink.red > 300 && ink.covered >= 0.99 * ink.red && ink.black === 0, JSON.stringify(ink));

  step("every page opens, from a phone's width to a wall's");
  for (const size of windows) {
    await page.setViewport(size);
    for (const at of pages(name)) {
      await page.goto(url + at);
      await page.waitForSelector("h1");
      await page.waitForFunction(settled);
      const over = await page.evaluate(overflow);
      assert.ok(over <= 0, `${at} is ${over} px too wide at ${size.width}`);
    }
  }
  assert.deepEqual(wrong, []);
  console.log("all of it works");
} finally {
  await browser.close();
}
