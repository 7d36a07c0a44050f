// What the API tells of what runs; schema/operations.go has the words and their meaning.

import type { Reason } from "./types";

export interface Activity {
  at: string;
  minutes: { at: string; documents: number; bytes: number; failed: number }[];
  waiting: Record<string, number>;
  waiting_since?: string;
  jobs: Record<string, number>;
  jobs_since?: string;
  failures: { what: string; code: string; count: number }[];
}

export interface SlowQuery {
  id: string;
  tenant_id: string;
  kind: "search" | "ask" | "job";
  collection_id?: string;
  question?: string;
  plan?: string;
  ms: number;
  stages: { stage: string; ms: number }[];
  code?: string;
  trace?: string;
  at: string;
}

export interface Operations {
  activity: Activity;
  queues: { name: string; messages: number }[];
  slow: SlowQuery[];
}

export interface Graph {
  graph: string;
  interactive: number;
  bulk: number;
  batches: number;
  items: number;
  tokens: number;
  padding: number;
  ms: number;
}

export interface Service {
  id: string;
  service: string;
  program: string;
  host: string;
  pid: number;
  since: string;
  places: number;
  running: number;
  waiting: number;
  served: number;
  refused: number;
  ms: number;
  model?: {
    pack: string;
    provider: string;
    held_bytes: number;
    held_sequences: number;
    max_sequences: number;
    graphs: Graph[] | null;
  };
}

export interface Installation {
  activity: Activity;
  tenants: { tenant_id: string; name: string; waiting: number; documents: number; bytes: number; failed: number }[];
  outbox: { messages: number; oldest?: string };
  queues: {
    name: string;
    messages: number;
    bytes: number;
    subjects: number;
    oldest?: string;
    consumers: {
      name: string;
      lag: number;
      unconfirmed: number;
      redelivered: number;
      delivered: number;
      asking: number;
      last?: string;
    }[];
  }[];
  tasks: {
    name: string;
    kind: string;
    backlog: number;
    age_seconds: number;
    added_per_second: number;
    taken_per_second: number;
    workers: { name: string; seen: string }[];
  }[];
  services: Service[];
  slow: SlowQuery[];
  problems?: string[];
}

export interface Change {
  at: string;
  kind: string;
  collection_id: string;
  document_id?: string;
  external_id?: string;
  job_id?: string;
  state: string;
  reason?: Reason;
  dropped?: number;
}

export interface UsageDay {
  day: string;
  calls: number;
  cached: number;
  input_tokens: number;
  output_tokens: number;
  dollars: number;
}

export interface Tenant {
  id: string;
  name: string;
  max_documents?: number;
  max_bytes?: number;
  created_at: string;
}

/** What a tenant has stored, as its quotas count it. */
export interface Stored {
  documents: number;
  bytes: number;
  max_documents?: number;
  max_bytes?: number;
}

/** How much a counter grew in a second, between two looks; since it began when there was no look before. */
export function perSecond(now: number, before: number | undefined, seconds: number): number {
  if (before === undefined || now < before) return 0;
  return seconds > 0 ? (now - before) / seconds : 0;
}
