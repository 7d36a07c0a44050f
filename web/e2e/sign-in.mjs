// Signs people in at a provider of OpenID Connect, in a browser, and ends their sessions.
// Usage: OIDC_ISSUER=... OIDC_PASSWORD=... node sign-in.mjs

import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import { barriers, browse } from "./pages.mjs";
import { deadline, overflow, url, windows } from "./server.mjs";

const { OIDC_ISSUER: issuer, OIDC_PASSWORD: password } = process.env;
const step = (text) => console.log(`- ${text}`);
const browser = await browse();

/** A browser of somebody's own, without sessions. */
async function newPage() {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
  const page = await context.newPage();
  page.setDefaultTimeout(deadline);
  page.on("request", (r) => {
    const { origin } = new URL(r.url());
    if (origin !== new URL(url).origin && origin !== new URL(issuer).origin) throw new Error(`asked ${r.url()}`);
  });
  return page;
}

async function atProvider(page, name, word = password) {
  await page.goto(url);
  await page.getByRole("link", { name: /^Sign in with/ }).click();
  await page.waitForURL((at) => at.origin === new URL(issuer).origin);
  await page.locator("input[name=username]").fill(name);
  await page.locator("input[name=password]").fill(word);
  await page.locator("[type=submit]").click();
}

async function signIn(page, name) {
  await atProvider(page, name);
  await page.getByRole("heading", { name: "Collections", level: 1 }).waitFor();
}

async function sessions(page) {
  await page.goto(`${url}/sessions`);
  await page.locator("table.documents tbody tr").first().waitFor();
  return page.locator("table.documents tbody tr");
}

try {
  while (!(await fetch(`${issuer}/.well-known/openid-configuration`).then((r) => r.ok, () => false))) await pause(50);

  step("who is in no rule is told so, by the groups that they are in");
  const stranger = await newPage();
  await atProvider(stranger, "stranger");
  await stranger.getByRole("heading", { name: "Not signed in" }).waitFor();
  assert.match(await stranger.locator("body").innerText(), /visitors/);

  step("a wrong password stays at the provider");
  const ann = await newPage();
  await atProvider(ann, "ann", "wrong");
  await ann.locator("input[name=password]").waitFor();
  assert.equal(new URL(ann.url()).origin, new URL(issuer).origin);

  step("a reader signs in, and may what readers may");
  await signIn(ann, "ann");
  await ann.getByRole("link", { name: "Ann Reader" }).waitFor();
  assert.equal(await ann.getByRole("button", { name: "New collection" }).count(), 0);
  assert.equal(await ann.evaluate(() => document.cookie), "");

  step("they see their session, and no others");
  const own = await sessions(ann);
  assert.equal(await own.count(), 1);
  assert.match(await own.innerText(), /Ann Reader\s+this one[\s\S]*127\.0\.0\.1[\s\S]*Chrome/);
  for (const size of windows) {
    await ann.setViewportSize(size);
    const by = await ann.evaluate(overflow);
    assert.ok(by <= 0, `/sessions is ${by} px wider than its window of ${size.width} px`);
  }
  assert.deepEqual(await barriers(ann), []);
  await ann.setViewportSize({ width: 1280, height: 900 });

  step("an admin sees all sessions, and ends one: that browser has to sign in again");
  const root = await newPage();
  await signIn(root, "root");
  const all = await sessions(root);
  assert.equal(await all.count(), 2);
  await all.filter({ hasText: "Ann Reader" }).getByRole("button", { name: "End" }).click();
  await root.getByRole("button", { name: "End it" }).click();
  await all.filter({ hasText: "Ann Reader" }).getByText(/^ended /).waitFor();
  await ann.goto(`${url}/collections`);
  await ann.getByRole("link", { name: /^Sign in with/ }).waitFor();

  step("ending one's own session signs out");
  await all.filter({ hasText: "this one" }).getByRole("button", { name: "End" }).click();
  await root.getByRole("button", { name: "End it" }).click();
  await root.getByRole("link", { name: /^Sign in with/ }).waitFor();
  await root.reload();
  await root.getByRole("link", { name: /^Sign in with/ }).waitFor();
} finally {
  await browser.close();
}
