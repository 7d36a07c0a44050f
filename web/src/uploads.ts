// Uploads go on while pages change, and their outcomes are looked up again after a reload.

import { useSyncExternalStore } from "react";
import { get, sendFile, withQuery } from "./api";
import type { Document as Doc, Reason, Uploaded } from "./types";

export interface Item {
  id: number;
  collection: string;
  /** The external id: the file's path among the dropped files. */
  name: string;
  /** waiting and sending are states of this page; broken: the upload failed; all others are the server's. */
  state: string;
  share: number;
  document?: string;
  message?: string;
}

export const over = (i: Item) => ["broken", "ready", "failed", "superseded", "cancelled"].includes(i.state);

const atOnce = 3;
const lookAtOnce = 20;
const lookEvery = 1500;
const keptAs = "uploads";
const keptMost = 500;

let items: Item[] = restore();
const files = new Map<number, File>();
const heard = new Set<() => void>();
const listeners = new Set<(collection: string) => void>();
let nextID = items.reduce((most, i) => Math.max(most, i.id), 0) + 1;
let sending = 0;
let looking = false;

function restore(): Item[] {
  try {
    const kept: Item[] = JSON.parse(sessionStorage.getItem(keptAs) ?? "[]");
    return kept.map((i) =>
      i.document || over(i)
        ? i
        : { ...i, state: "broken", message: "The page was closed before it was sent. Drop it again." },
    );
  } catch {
    return [];
  }
}

function change(id: number, to: Partial<Item>) {
  set(items.map((i) => (i.id === id ? { ...i, ...to } : i)));
}

/** The smallest step of a file's progress that is reported, because each report renders the page. */
const leastStep = 0.02;

function advance(id: number, share: number) {
  const now = items.find((i) => i.id === id);
  if (!now || share - now.share < leastStep) return;
  items = items.map((i) => (i.id === id ? { ...i, share } : i));
  for (const f of heard) f();
}

function set(to: Item[]) {
  items = to;
  try {
    sessionStorage.setItem(keptAs, JSON.stringify(items.slice(-keptMost)));
  } catch {
    // The browser's storage is full: the uploads are forgotten after a reload, but not by the
    // server.
  }
  for (const f of heard) f();
}

export function useUploads(collection: string): Item[] {
  const now = useSyncExternalStore(
    (f) => {
      heard.add(f);
      return () => heard.delete(f);
    },
    () => items,
  );
  return now.filter((i) => i.collection === collection);
}

/** Calls f when an upload may have changed the documents of a collection. */
export function onUploaded(f: (collection: string) => void): () => void {
  listeners.add(f);
  return () => listeners.delete(f);
}

export function add(collection: string, dropped: { name: string; file: File }[]) {
  const fresh = dropped.map(({ name, file }): Item => {
    const id = nextID++;
    files.set(id, file);
    return { id, collection, name, state: "waiting", share: 0 };
  });
  const names = new Set(dropped.map((d) => d.name));
  set([...items.filter((i) => !(over(i) && i.collection === collection && names.has(i.name))), ...fresh]);
  pump();
}

export function clearDone(collection: string) {
  set(items.filter((i) => i.collection !== collection || !over(i)));
}

/** Forgets all uploads; those in progress still arrive. */
export function forgetAll() {
  files.clear();
  set([]);
}

function pump() {
  while (sending < atOnce) {
    const next = items.find((i) => i.state === "waiting" && files.has(i.id));
    if (!next) return;
    sending++;
    change(next.id, { state: "sending" });
    void sendOne(next).finally(() => {
      files.delete(next.id);
      sending--;
      pump();
    });
  }
}

async function sendOne(item: Item) {
  const file = files.get(item.id);
  if (!file) return;
  try {
    const path = withQuery(`/v1/collections/${encodeURIComponent(item.collection)}/content`, {
      external_id: item.name,
    });
    const sent = await sendFile<Uploaded>(path, file, (share) => advance(item.id, share));
    change(item.id, {
      state: sent.state,
      share: 1,
      document: sent.document_id,
      message: messageOf(sent.unchanged, sent.reason),
    });
    for (const f of listeners) f(item.collection);
    look();
  } catch (e) {
    change(item.id, { state: "broken", message: (e as Error).message });
  }
}

const messageOf = (unchanged: boolean, reason?: Reason) =>
  reason?.message ?? (unchanged ? "It was there already, unchanged." : undefined);

/** Polls the state of documents that are being processed, until all are finished. */
export function look() {
  if (looking) return;
  looking = true;
  const round = async () => {
    const open = items.filter((i) => i.document && !over(i)).slice(0, lookAtOnce);
    if (open.length === 0) {
      looking = false;
      return;
    }
    const ended = new Set<string>();
    await Promise.all(
      open.map(async (i) => {
        try {
          const d = await get<Doc>(`/v1/documents/${i.document}`);
          if (d.state !== i.state) change(i.id, { state: d.state, message: d.reason?.message });
          if (over({ ...i, state: d.state })) ended.add(i.collection);
        } catch (e) {
          if ((e as { status?: number }).status === 404)
            change(i.id, { state: "cancelled", message: "It was deleted." });
        }
      }),
    );
    for (const c of ended) for (const f of listeners) f(c);
    setTimeout(() => void round(), lookEvery);
  };
  void round();
}
