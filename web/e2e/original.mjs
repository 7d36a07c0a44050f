// Opens what was cited on the pages of a PDF, and looks at the ink under what is marked.

import assert from "node:assert/strict";
import { open } from "./pages.mjs";
import { key, url } from "./server.mjs";

/** Of each page: what is asked, and the sentence that answers it, which is printed in red. */
export const asked = [
  ["When was the granite harbour lantern first lit?", "The granite harbour lantern was first lit in 1874 by two keepers."],
  ["Who owns the copper bridge over the delta?", "The copper bridge over the delta is owned by the port of Ember."],
];
const others = ["Meadows near the quarry are mown late.", "Walnut and timber are sold by weight.", "Ledgers are kept in the northern hall."];

/** Images of a scanner's formats, in hexadecimal digits: a square in CCITT's group 4, and grey in JPEG 2000. */
const fax = "26a0d5fffc8b57ffffffffffffffe3fffc004004";
const jpx =
  "ff4fff510029000000000010000000100000000000000000000000100000001000000000000000000001070101ff52000c00000001000004040001ff5c00044040ff640025000143726561746564206279204f70656e4a5045472076657273696f6e20322e352e34ff90000a00000000002a0001ff93c7d432115054aff4c7b0370000000061212ff869d80000000309097fffd9";

/** A PDF of three pages: the second one is turned, and cropped at its left and below; the third one has images. */
function printed(encrypted = "") {
  const page = (red) => {
    const lines = [...others, ...others, red, ...others];
    return lines
      .map((line, i) => `BT ${line === red ? "1 0 0" : "0 0 0"} rg /F1 11 Tf 1 0 0 1 72 ${700 - 15 * i} Tm (${line}) Tj ET\n`)
      .join("");
  };
  const stream = (text, entries = "") => `<< /Length ${text.length} ${entries} >>\nstream\n${text}\nendstream`;
  const image = (hex, entries) => stream(`${hex}>`, `/Type /XObject /Subtype /Image /ColorSpace /DeviceGray ${entries}`);
  const resources = "/Font << /F1 7 0 R >> /XObject << /I1 10 0 R /I2 11 0 R >>";
  const sheet = (content, more) =>
    `<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] ${more} /Resources << ${resources} >> /Contents ${content} 0 R >>`;
  const objects = [
    "<< /Type /Catalog /Pages 2 0 R >>",
    "<< /Type /Pages /Kids [3 0 R 4 0 R 8 0 R] /Count 3 >>",
    sheet(5, ""),
    sheet(6, "/CropBox [20 40 612 792] /Rotate 90"),
    stream(page(asked[0][1])),
    stream(page(asked[1][1])),
    "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    sheet(9, ""),
    stream("q 200 0 0 200 72 500 cm /I1 Do Q q 200 0 0 200 300 500 cm /I2 Do Q"),
    image(fax, "/Width 32 /Height 32 /BitsPerComponent 1 /Filter [/ASCIIHexDecode /CCITTFaxDecode] /DecodeParms [null << /K -1 /Columns 32 /Rows 32 >>]"),
    image(jpx, "/Width 16 /Height 16 /BitsPerComponent 8 /Filter [/ASCIIHexDecode /JPXDecode]"),
  ];
  let out = "%PDF-1.7\n";
  const at = objects.map((o, i) => {
    const offset = out.length;
    out += `${i + 1} 0 obj\n${o}\nendobj\n`;
    return `${String(offset).padStart(10, "0")} 00000 n \n`;
  });
  const table = `xref\n0 ${at.length + 1}\n0000000000 65535 f \n${at.join("")}`;
  return `${out}${table}trailer\n<< /Size ${at.length + 1} /Root 1 0 R ${encrypted} >>\nstartxref\n${out.length}\n%%EOF\n`;
}

// Of a password that nobody has.
const encryption = `/ID [<00112233445566778899aabbccddeeff> <00112233445566778899aabbccddeeff>]
/Encrypt << /Filter /Standard /V 1 /R 2 /P -4 /O <${"5a".repeat(32)}> /U <${"a5".repeat(32)}> >>`;

async function send(method, path, body, type = "application/json") {
  const reply = await fetch(url + path, { method, body, headers: { Authorization: `Bearer ${key}`, "Content-Type": type } });
  assert.ok(reply.ok, `${method} ${path}: ${reply.status}`);
  return reply.json();
}

/** Makes a collection with the PDF, and tells its name and the document's id. */
export async function uploadPages() {
  const name = `pages-${Date.now()}`;
  await send("POST", "/v1/collections", JSON.stringify({ name }));
  const upload = (id, bytes) => send("PUT", `/v1/collections/${name}/content?external_id=${id}`, bytes, "application/pdf");
  const { document_id: document } = await upload("harbour.pdf", printed());
  const { document_id: locked } = await upload("locked.pdf", printed(encryption));
  return { name, document, locked };
}

/** In the page: how many pixels of red ink there are, how many of them lie under a mark, and how many of black ink well inside one. */
export const inkUnderMarks = () => {
  const canvas = document.querySelector(".sheet canvas");
  const at = canvas.getBoundingClientRect();
  const ratio = canvas.width / at.width;
  const marks = [...document.querySelectorAll(".sheet-mark")].map((m) => {
    const r = m.getBoundingClientRect();
    return [(r.left - at.left) * ratio, (r.top - at.top) * ratio, (r.right - at.left) * ratio, (r.bottom - at.top) * ratio];
  });
  const under = (x, y, margin) => marks.some(([l, t, r, b]) => x > l - margin && x < r + margin && y > t - margin && y < b + margin);
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let red = 0;
  let covered = 0;
  let black = 0;
  for (let i = 0; i < data.length; i += 4) {
    if (data[i + 1] >= 120 || data[i + 2] >= 120) continue;
    const x = ((i / 4) % canvas.width) + 0.5;
    const y = Math.floor(i / 4 / canvas.width) + 0.5;
    if (data[i] > 200) {
      red++;
      if (under(x, y, 0.5)) covered++;
    } else if (data[i] < 60 && under(x, y, -1)) black++;
  }
  return { page: Number(document.querySelector(".sheet").dataset.page), marks: marks.length, red, covered, black };
};

/** In the page: which share of the first image is black, and of the second one grey. */
const imageShares = () => {
  const canvas = document.querySelector(".sheet canvas");
  const scale = canvas.width / 612;
  const share = (left, is) => {
    // Well inside the image.
    const { data } = canvas.getContext("2d").getImageData((left + 2) * scale, (792 - 698) * scale, 196 * scale, 196 * scale);
    let found = 0;
    for (let i = 0; i < data.length; i += 4) if (is(data[i])) found++;
    return found / (data.length / 4);
  };
  return { black: share(72, (v) => v < 60), grey: share(300, (v) => v > 80 && v < 100) };
};

/** In the page: a page of the PDF is there, as it is asked for now. */
export const drawn = () => document.querySelector(".book-frame[aria-busy=false] .sheet canvas") !== null;

async function marked(page, number) {
  await page.waitForFunction(drawn);
  await page.locator(`.sheet[data-page="${number}"] .sheet-mark`).first().waitFor();
  const ink = await page.evaluate(inkUnderMarks);
  console.log(`  ${JSON.stringify(ink)}`);
  assert.ok(ink.page === number && ink.red > 300 && ink.covered >= 0.99 * ink.red, "the quote's ink is not under its marks");
  return ink;
}

/** Asks, and opens what is cited, as stored answers and searches do. It returns a citation's path. */
export async function original(page, step) {
  const { name, document, locked } = await uploadPages();
  await page.goto(`${url}/collections/${name}`);
  await page.locator("table.documents .badge.ready").waitFor();
  await page.locator("table.documents .badge.failed").waitFor();

  step("a citation opens its page, and what is cited is marked exactly over the ink, also on a turned and cropped page");
  let cited = "";
  for (const [i, [question, sentence]] of asked.entries()) {
    await page.goto(`${url}/ask?collection=${name}`);
    await page.getByLabel("Question").fill(question);
    await page.keyboard.press("Enter");
    const source = page.locator(".sources li", { has: page.locator("blockquote", { hasText: sentence }) }).first();
    assert.equal(await source.locator("blockquote").textContent(), sentence);
    const answer = await source.locator("blockquote mark").textContent();
    await source.getByRole("link", { name: `Page ${i + 1}` }).click();
    const { black } = await marked(page, i + 1);
    assert.equal(black, 0, "other ink is marked");
    assert.equal(await page.locator("aside blockquote").textContent(), sentence);
    assert.equal(await page.locator("aside blockquote mark").textContent(), answer);
    assert.equal(await page.locator(".sheet-mark.answers").count(), 1);
    assert.equal((await page.locator("article mark").allTextContents()).join(""), sentence);
    const mark = page.locator(".sheet-mark").first();
    assert.ok(await mark.evaluate((m) => m.getBoundingClientRect().top >= 0 && m.getBoundingClientRect().bottom <= innerHeight));
    cited = page.url().slice(url.length);
  }

  step("its pages are turned and made larger by keyboard, and the marks stay over the ink");
  const press = async (button) => {
    await page.getByRole("button", { name: button }).focus();
    await page.keyboard.press("Enter");
  };
  await press("Larger");
  await page.getByRole("button", { name: "Fit the width" }).and(page.locator(":enabled")).waitFor();
  assert.equal((await marked(page, 2)).black, 0);
  await press("Previous page");
  await page.locator('.sheet[data-page="1"]').waitFor();
  assert.equal(await page.locator(".sheet-mark").count(), 0);
  await press("Fit the width");
  await page.getByRole("textbox", { name: "Page" }).fill("2");
  await page.keyboard.press("Enter");
  assert.equal((await marked(page, 2)).black, 0);
  await page.setViewportSize({ width: 760, height: 900 });
  await page.waitForFunction(() => document.querySelector(".sheet").clientWidth < 760);
  assert.equal((await marked(page, 2)).black, 0);
  await page.setViewportSize({ width: 1280, height: 900 });

  step("images are drawn that browsers have no decoders for");
  await page.getByRole("button", { name: "Next page" }).click();
  await page.locator('.sheet[data-page="3"]').waitFor();
  const shares = await page.evaluate(imageShares);
  console.log(`  ${JSON.stringify(shares)}`);
  assert.ok(shares.black > 0.2 && shares.black < 0.8 && shares.grey > 0.99);

  step("what a search found opens on its page, and so does a stored answer");
  await page.goto(`${url}/search?collection=${name}`);
  await page.getByLabel("Question").fill(asked[1][0]);
  await page.getByRole("button", { name: "Search", exact: true }).click();
  // All of the text is one passage, which begins on the first page and goes on on the second one.
  await page.locator(".sources li", { hasText: asked[1][1] }).first().getByRole("link", { name: "Page 1" }).click();
  await marked(page, 1);
  await page.getByText("Marked on the pages 1, 2.").waitFor();
  await page.getByRole("button", { name: "Next page" }).click();
  await marked(page, 2);
  await page.goto(`${url}/ask?collection=${name}`);
  await page.getByRole("region", { name: "Asked before" }).getByRole("link", { name: asked[0][0] }).first().click();
  await page.waitForURL(/\/questions\/./);
  await page.locator(".sources li").first().getByRole("link", { name: "Page 1" }).click();
  await marked(page, 1);

  step("who leaves while a page is drawn, leaves");
  await page.goto(url + cited);
  await page.getByRole("heading", { name: "Pages" }).waitFor();
  await page.getByRole("link", { name: "Search" }).click();
  await page.getByRole("heading", { name: "Search", level: 1 }).waitFor();

  step("a PDF whose pages cannot be shown says why");
  const { page: other, wrong } = await open(page.context());
  await other.goto(`${url}/documents/${locked}`);
  await other.getByRole("button", { name: "Show the pages" }).click();
  await other.getByRole("alert").getByText("The PDF is encrypted").waitFor();
  const gone = new URL(url + cited);
  gone.searchParams.set("version", crypto.randomUUID());
  await other.goto(gone.href);
  await other.getByRole("region", { name: "Pages" }).getByText(`${gone.searchParams.get("version")} is not stored any more`).waitFor();
  await other.route("**/content?**", (route) => route.abort());
  await other.goto(url + cited);
  await other.getByRole("alert").getByText("cannot be reached").waitFor();
  await other.unroute("**/content?**");
  await other.getByRole("button", { name: "Try again" }).click();
  await marked(other, 2);
  await other.route(`**/v1/documents/${document}`, async (route) => {
    const reply = await route.fetch();
    const body = await reply.json();
    for (const v of body.versions) v.bytes = 300 * 1024 * 1024;
    await route.fulfill({ response: reply, json: body });
  });
  await other.goto(url + cited);
  await other.getByText("it is too large to be shown here").waitFor();
  const [download] = await Promise.all([other.waitForEvent("download"), other.getByRole("link", { name: "Download it" }).click()]);
  assert.equal(download.suggestedFilename(), "harbour.pdf");
  assert.deepEqual(wrong.filter((w) => !/status of 404|ERR_FAILED/.test(w)), []);
  await other.close();
  return cited;
}
