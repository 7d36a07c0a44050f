// What the API under /v1 takes and gives; schema/ and schema/api have the words and their meaning.

export type Scope = "operator" | "admin" | "ingest" | "query" | "impersonate";

export interface Identity {
  tenant_id: string;
  key_id: string;
  name: string;
  scopes: Scope[];
  groups?: string[];
  /** Where a trace is shown, with {trace} for its id. */
  trace_url?: string;
}

export interface Page<T> {
  items: T[];
  next?: string;
}

export interface Problem {
  status: number;
  title: string;
  detail?: string;
  errors?: { message: string; location?: string }[];
}

export const states = ["received", "queued", "processing", "ready", "failed", "superseded", "cancelled"] as const;
export type State = (typeof states)[number];

export interface Reason {
  code: string;
  message: string;
}

export interface Collection {
  id: string;
  name: string;
  description?: string;
  language: string;
  segmentation: { method?: string; [setting: string]: unknown };
  space: string;
  generation: number;
  created_at: string;
  counts?: Partial<Record<State, number>>;
  bytes?: number;
  passages?: number;
  uncurated?: number;
  changed_at?: string;
}

export interface Doc {
  id: string;
  collection_id: string;
  external_id: string;
  title: string;
  state: State;
  reason?: Reason;
  live: boolean;
  media_type: string;
  bytes: number;
  sha256: string;
  version: number;
  attempt: number;
  sections: number;
  passages: number;
  labels?: string[];
  metadata?: Record<string, unknown>;
  created_at: string;
  updated_at: string;
}

export interface Version {
  id: string;
  number: number;
  state: State;
  reason?: Reason;
  attempt: number;
  media_type: string;
  bytes: number;
  created_at: string;
  ready_at?: string;
}

export interface DocDetail extends Doc {
  versions: Version[];
}

export interface Uploaded {
  external_id: string;
  document_id: string;
  version_id: string;
  state: State;
  unchanged: boolean;
  reason?: Reason;
}

/** Bytes [start, end) of a section's text. */
export interface Span {
  version: string;
  section: string;
  start: number;
  end: number;
}

export interface Section {
  id: string;
  version_id: string;
  ordinal: number;
  heading_path?: string[];
  text: string;
  tokens: number;
  location: string;
  cluster_id?: string;
  passages: Passage[];
}

export interface Passage {
  ordinal: number;
  start: number;
  end: number;
  tokens: number;
  links?: { section: number; passage: number; weight: number }[];
}

export interface Judged {
  document?: string;
  version?: string;
  location?: string;
  cluster?: string;
  score: number;
  scores?: Record<string, number>;
  why?: string;
}

export interface StageReport {
  stage: string;
  unit?: string;
  in: number;
  out: number;
  ms: number;
  why?: string;
  kept?: Judged[];
  dropped?: Judged[];
  statistics?: Record<string, number>;
}

export interface Candidate {
  unit: string;
  passage: string;
  cluster?: string;
  document_id: string;
  document: string;
  title: string;
  location: string;
  spans: Span[];
  text: string;
  tokens: number;
  score: number;
  scores: Record<string, number> | null;
  origin: string;
}

export interface SearchResult {
  query: string;
  plan: string;
  passages: Candidate[];
  context: number[];
  trace: StageReport[];
  ms: number;
}

export interface Citation {
  document: string;
  document_id: string;
  title: string;
  location: string;
  quote: string;
  span: Span;
  answer?: { text: string; start: number; end: number; confidence: number };
}

export interface Sentence {
  start: number;
  end: number;
  citations: number[] | null;
  supported: boolean;
}

export interface Answer {
  question_id?: string;
  question: string;
  answer: string;
  supported: boolean;
  citations: Citation[] | null;
  sentences?: Sentence[];
  choice?: number;
  uncited?: boolean;
  /** Its sources are documents that the reader may not see now: what it said is left out. */
  withheld?: boolean;
  rounds?: number;
  plan: string;
  trace: StageReport[] | null;
  usage: {
    provider?: string;
    model?: string;
    input_tokens: number;
    output_tokens: number;
    ms: number;
    cost?: number;
    cached?: boolean;
  };
}

export type JobState = "queued" | "running" | "answered" | "failed" | "cancelled";

export interface Job {
  id: string;
  collection_id: string;
  question: string;
  choices?: string[];
  plan: string;
  state: JobState;
  stage?: string;
  reason?: Reason;
  trace?: string;
  created_at: string;
  finished_at?: string;
  result?: Answer;
}

/** A question as it was asked; one that is async runs as the job of the same id. */
export interface AskedQuestion extends Job {
  async: boolean;
  key_id: string;
  /** For whom the key asked. */
  person?: string;
  plan_text?: string;
  filter?: Condition[];
  k?: number;
}

export const operators = ["=", "<", "<=", ">", ">=", "in"] as const;

/** What a document's metadata must satisfy. */
export interface Condition {
  key: string;
  op: (typeof operators)[number];
  values: string[];
}

export interface Plan {
  name: string;
  description?: string;
  default?: boolean;
  own?: boolean;
  problem?: string;
  updated_at?: string;
  /** Its YAML; lists are without. */
  text?: string;
  stages: { stage: string; unit: string; parameters?: Record<string, unknown> }[];
}

export interface Query {
  collection: string;
  query: string;
  plan?: string;
  plan_text?: string;
  filter?: Condition[];
  k?: number;
  explain?: boolean;
  choices?: string[];
}

export interface StageEvent {
  stage: string;
  round?: number;
  candidates?: number;
}

export interface DeltaEvent {
  text: string;
  restart?: boolean;
  checked?: boolean;
}

export interface Key {
  id: string;
  name: string;
  prefix: string;
  scopes: Scope[];
  groups?: string[];
  created_at: string;
  expires_at?: string;
  revoked_at?: string;
  /** To within minutes; absent: never. */
  last_used_at?: string;
}

export interface KeyCreated extends Key {
  api_key: string;
}

export interface Spent {
  since: string;
  resets: string;
  calls: number;
  cached: number;
  input_tokens: number;
  output_tokens: number;
  dollars: number;
}

export interface Usage {
  limits: {
    tokens_per_day?: number;
    tokens_per_month?: number;
    dollars_per_day?: number;
    dollars_per_month?: number;
    calls_per_minute?: number;
    calls_at_once?: number;
  };
  day: Spent;
  month: Spent;
  in_progress: number;
  reserved_tokens: number;
  reserved_dollars: number;
}
