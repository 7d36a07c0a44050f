// The server whose back office is looked at, and that back office's pages.

const { SLUICE_URL: url, SLUICE_API_KEY: key } = process.env;
if (!url || !key) throw new Error("SLUICE_URL and SLUICE_API_KEY say which server, and with which key");
export { key, url };

/** How long anything is waited for, in milliseconds: as long as a binary of Go's tests has. No wait has a limit of its own. */
export const deadline = 30 * 60_000;

/** The pages that need no more than a collection. */
export const pages = (collection) => [
  "/collections",
  `/collections/${collection}`,
  "/ask",
  `/search?collection=${collection}`,
  "/jobs",
  "/plans",
  "/plans?plan=sluice",
  "/evaluations",
  "/sources",
  "/running",
  "/usage",
  "/keys",
  "/sessions",
  "/audit",
  "/tenants",
];

/** The windows that every page has to fit into: a phone's, and a wall's. */
export const windows = [
  { width: 360, height: 740 },
  { width: 3840, height: 2160 },
];

/** In the page: it has shown what it asked for. One that follows events is never idle, so that cannot be waited for. */
export const settled = () => ![...document.querySelectorAll("[role=status]")].some((e) => e.textContent === "Loading…");

/** In the page: by how many pixels it is wider than its window. */
export const overflow = () => document.documentElement.scrollWidth - document.documentElement.clientWidth;
