// A browser at the back office of a running server: what every script here begins with.

import { existsSync } from "node:fs";
import axe from "axe-core";
import { chromium } from "playwright-core";
import { deadline, key, url } from "./server.mjs";

/** Starts the machine's Chromium; CHROMIUM names another. */
export async function browse() {
  const places = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
  const executablePath = places.find((p) => p && existsSync(p));
  if (!executablePath) throw new Error("there is no Chromium: tools/setup chromium installs it, or set CHROMIUM");
  // Root's Chromium has no sandbox.
  return chromium.launch({ executablePath, args: process.getuid?.() === 0 ? ["--no-sandbox"] : [] });
}

/** A page that fails the script on what a user would not see: errors, refused loads, requests to other hosts. */
export async function open(context) {
  const page = await context.newPage();
  page.setDefaultTimeout(deadline);
  const wrong = [];
  page.on("pageerror", (e) => wrong.push(`error: ${e.message}`));
  page.on("console", (m) => {
    // A refused sign-in, and the first look for a session, are told of by the browser itself.
    if (m.type() === "error" && !/status of 401/.test(m.text())) wrong.push(`console: ${m.text()}`);
  });
  page.on("request", (r) => {
    if (new URL(r.url()).origin !== new URL(url).origin && !r.url().startsWith("data:")) wrong.push(`asked ${r.url()}`);
  });
  return { page, wrong };
}

export async function signIn(page, as = key) {
  await page.goto(url);
  await page.getByLabel("API key").fill(as);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "Collections", level: 1 }).waitFor();
}

export async function newCollection(page, name) {
  await page.goto(`${url}/collections`);
  await page.getByRole("button", { name: "New collection" }).click();
  await page.getByRole("dialog").getByLabel("Name").fill(name);
  await page.getByRole("button", { name: "Create" }).click();
  await page.getByRole("heading", { name, level: 1 }).waitFor();
}

/** Uploads a folder and waits until all of it has been processed. */
export async function uploadFolder(page, folder) {
  const chooser = page.waitForEvent("filechooser");
  await page.getByRole("button", { name: "A folder…" }).click();
  await (await chooser).setFiles(folder);
  const done = page.getByText(/^(\d+) of \1 uploads done/);
  await done.waitFor();
  return done.textContent();
}

/** What axe finds on a page that keeps people from using it, one line each. */
export async function barriers(page) {
  await page.evaluate(axe.source);
  const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  return found.violations
    .filter((v) => v.impact === "serious" || v.impact === "critical")
    .map((v) => `${new URL(found.url).pathname}: ${v.id}: ${v.help}: ${v.nodes.map((n) => n.target.join(" ")).join(", ")}`);
}
