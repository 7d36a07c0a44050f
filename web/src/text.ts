// The API counts text in bytes of UTF-8, JavaScript in units of UTF-16.

import type { Span } from "./types";

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** A text that can be cut at byte offsets. */
export class Bytes {
  private readonly bytes: Uint8Array;
  constructor(text: string) {
    this.bytes = encoder.encode(text);
  }
  get length(): number {
    return this.bytes.length;
  }
  slice(start: number, end: number): string {
    return decoder.decode(this.bytes.subarray(Math.max(0, start), Math.max(0, end)));
  }
}

const whole = new Intl.NumberFormat("en");
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export const count = (n: number | undefined) => whole.format(n ?? 0);
export const short = (n: number | undefined) => compact.format(n ?? 0);

export function bytesOf(n: number | undefined): string {
  let value = n ?? 0;
  for (const unit of ["B", "KB", "MB", "GB"]) {
    if (value < 1024) return `${value < 10 && unit !== "B" ? value.toFixed(1) : Math.round(value)} ${unit}`;
    value /= 1024;
  }
  return `${value.toFixed(1)} TB`;
}

export function millis(ms: number): string {
  if (ms < 0.05) return "0 ms";
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}

export const score = (n: number) => (Math.abs(n) >= 100 ? n.toFixed(0) : n.toPrecision(3));

const dateTime = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
export const when = (iso: string | undefined) => (iso ? dateTime.format(new Date(iso)) : "");

export const plural = (n: number, one: string, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

/** Where the document view shows a span, and the part of it that is an answer by itself, relative to its beginning. */
export function spanPath(document: string, span?: Span, answer?: { start: number; end: number }) {
  const path = `/documents/${document}`;
  if (!span) return path;
  const q = new URLSearchParams({
    version: span.version,
    section: span.section,
    start: String(span.start),
    end: String(span.end),
  });
  if (answer && answer.end > answer.start) {
    q.set("answer_start", String(span.start + answer.start));
    q.set("answer_end", String(span.start + answer.end));
  }
  return `${path}?${q}`;
}
