// All requests to the API. The browser sends the session's cookie, and a header shows that the
// request comes from this page.

import type { DeltaEvent, ErrorModel as Problem, PageDocument, StageEvent } from "./types";

/** One page of a list. */
export type Page<T> = Omit<PageDocument, "items"> & { items: T[] };

const own = { "X-Sluice-Session": "1" };

/** A refusal or failure, with the server's message. */
export class APIError extends Error {
  readonly status: number;
  /** Which part of the request is wrong, and why. */
  readonly fields: { message: string; location?: string }[];
  constructor(problem: Problem) {
    let text = problem.detail || problem.title || `status ${problem.status}`;
    const fields = (problem.errors ?? []).map((e) => ({ ...e, message: e.message ?? "" }));
    for (const e of fields) {
      if (!text.includes(e.message)) text += `; ${e.location ? `${e.location}: ` : ""}${e.message}`;
    }
    super(text);
    this.status = problem.status ?? 0;
    this.fields = fields;
  }
}

const lost = () => new APIError({ status: 0, title: "the server cannot be reached" });

/** Called when a request fails because the session has ended. */
let onSignedOut = () => {};
export function whenSignedOut(f: () => void) {
  onSignedOut = f;
}

async function problemOf(reply: Response): Promise<APIError> {
  const problem = await reply
    .json()
    .catch(() => ({ status: reply.status, title: reply.statusText || `status ${reply.status}` }));
  return new APIError({ status: reply.status, ...problem });
}

async function send(method: string, path: string, body?: unknown, init: RequestInit = {}): Promise<Response> {
  const headers: Record<string, string> = { ...own, Accept: "application/json", ...(init.headers as object) };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let reply: Response;
  try {
    reply = await fetch(path, {
      ...init,
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "same-origin",
      cache: "no-store",
    });
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw lost();
  }
  if (!reply.ok) {
    if (reply.status === 401 && path !== "/v1/session") onSignedOut();
    throw await problemOf(reply);
  }
  return reply;
}

export async function call<T>(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  const reply = await send(method, path, body, { signal });
  return (reply.status === 204 ? undefined : await reply.json().catch(() => undefined)) as T;
}

export const get = <T>(path: string, signal?: AbortSignal) => call<T>("GET", path, undefined, signal);
export const post = <T>(path: string, body?: unknown) => call<T>("POST", path, body);
export const del = (path: string) => call<void>("DELETE", path);

/** A file's bytes. */
export async function getBytes(path: string, signal: AbortSignal): Promise<Uint8Array> {
  const reply = await send("GET", path, undefined, { signal, headers: { Accept: "*/*" } });
  try {
    return new Uint8Array(await reply.arrayBuffer());
  } catch (error) {
    if (signal.aborted) throw error;
    throw lost();
  }
}

/** A path with its query; empty parameters are left out. */
export function withQuery(path: string, query: Record<string, string | number | undefined>): string {
  const q = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) {
    if (value !== undefined && value !== "") q.set(key, String(value));
  }
  const text = q.toString();
  return text ? `${path}?${text}` : path;
}

/** All pages of a list that is usually short, up to most entries. */
export async function all<T>(path: string, most = 2000, signal?: AbortSignal): Promise<T[]> {
  const out: T[] = [];
  let cursor: string | undefined;
  do {
    const page: Page<T> = await get(withQuery(path, { limit: 500, cursor }), signal);
    out.push(...page.items);
    cursor = page.next;
  } while (cursor && out.length < most);
  return out;
}

/** One server-sent event. */
export interface ServerEvent {
  event: string;
  data: unknown;
}

/** Parses server-sent events from chunks of bytes, wherever these are split. */
export class EventReader {
  private rest = "";
  private readonly decoder = new TextDecoder();

  push(bytes: Uint8Array): ServerEvent[] {
    this.rest += this.decoder.decode(bytes, { stream: true });
    const blocks = this.rest.split("\n\n");
    this.rest = blocks.pop() ?? "";
    const out: ServerEvent[] = [];
    for (const block of blocks) {
      let event = "";
      const data: string[] = [];
      for (const line of block.split("\n")) {
        if (line.startsWith("event: ")) event = line.slice(7);
        if (line.startsWith("data: ")) data.push(line.slice(6));
      }
      if (data.length > 0) out.push({ event, data: JSON.parse(data.join("\n")) });
    }
    return out;
  }
}

/** Follows a stream of events to its end. */
export async function stream(
  method: string,
  path: string,
  body: unknown,
  signal: AbortSignal,
  on: (e: ServerEvent) => void,
): Promise<void> {
  const reply = await send(method, path, body, { signal, headers: { Accept: "text/event-stream" } });
  const chunks = reply.body?.getReader();
  if (!chunks) return;
  const reader = new EventReader();
  for (;;) {
    const { done, value } = await chunks.read().catch((error) => {
      if (signal.aborted) throw error;
      throw lost();
    });
    if (done) return;
    for (const e of reader.push(value)) {
      if (e.event === "error") throw new APIError(e.data as Problem);
      on(e);
    }
  }
}

export type AskEvent =
  | { event: "stage"; data: StageEvent }
  | { event: "delta"; data: DeltaEvent }
  | { event: "answer"; data: unknown };

/** Uploads a file. progress gets the share that has been sent, from 0 to 1, which fetch cannot report. */
export function sendFile<T>(path: string, file: File, progress: (share: number) => void): Promise<T> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("PUT", path);
    for (const [name, value] of Object.entries(own)) request.setRequestHeader(name, value);
    request.setRequestHeader("Content-Type", file.type || "application/octet-stream");
    request.responseType = "json";
    request.upload.onprogress = (e) => progress(e.total > 0 ? e.loaded / e.total : 0);
    request.onerror = () => reject(lost());
    request.onload = () => {
      if (request.status >= 200 && request.status < 300) return resolve(request.response as T);
      if (request.status === 401) onSignedOut();
      reject(new APIError({ status: request.status, title: request.statusText, ...(request.response ?? {}) }));
    };
    request.send(file);
  });
}
