// Which figures of evaluations are shown, and how. docs/evaluation.md defines them.

import type { EvaluatedPlan, EvaluationReport } from "./types";

/** A figure of a plan in tables and plots. */
export interface Figure {
  title: string;
  metric: string;
  digits: number;
  lower?: boolean;
  /** Factor for displayed values. */
  times?: number;
}

export const searchFigures: Figure[] = [
  { title: "nDCG@10", metric: "ndcg@10", digits: 4 },
  { title: "hit@1", metric: "hit@1", digits: 4 },
  { title: "MRR@10", metric: "mrr@10", digits: 4 },
  { title: "recall@100", metric: "document_recall@100", digits: 4 },
  { title: "AR@4", metric: "ar@4", digits: 4 },
  { title: "evidence", metric: "evidence_recall", digits: 4 },
  { title: "P@3", metric: "passage_precision@3", digits: 4 },
  { title: "IE sum", metric: "passage_ie_sum", digits: 4 },
  { title: "tokens", metric: "tokens", digits: 0, lower: true },
  { title: "p50 ms", metric: "ms_p50", digits: 1, lower: true },
  { title: "p95 ms", metric: "ms_p95", digits: 1, lower: true },
];

export const answerFigures: Figure[] = [
  { title: "EM", metric: "em", digits: 4 },
  { title: "F1", metric: "f1", digits: 4 },
  { title: "ROUGE-L", metric: "rouge_l", digits: 4 },
  { title: "METEOR", metric: "meteor", digits: 4 },
  { title: "contains", metric: "contains", digits: 4 },
  { title: "cites P", metric: "citation_precision", digits: 4 },
  { title: "cites R", metric: "citation_recall", digits: 4 },
  { title: "unanswerable", metric: "unanswerable_accuracy", digits: 4 },
  { title: "choice", metric: "choice_accuracy", digits: 4 },
  { title: "answered", metric: "answered", digits: 4 },
  { title: "tokens in", metric: "input_tokens", digits: 0, lower: true },
  { title: "$ per 1000", metric: "cost", digits: 3, lower: true, times: 1000 },
  { title: "p50 ms", metric: "answer_ms_p50", digits: 0, lower: true },
];

/** A plan's value of a figure; undefined: the dataset does not determine it. */
export function valueOf(p: EvaluatedPlan, f: Figure): number | undefined {
  const own: Record<string, number | undefined> = {
    tokens: p.tokens,
    ms_p50: p.ms.p50,
    ms_p95: p.ms.p95,
    answer_ms_p50: p.answer_ms?.p50,
  };
  const v = f.metric in own ? own[f.metric] : p.metrics[f.metric];
  return v === undefined ? undefined : v * (f.times ?? 1);
}

/** The p below which a difference counts as significant. */
export const significant = 0.05;

export type Mark = "best" | "level" | "";

/** Marks the best plan of a figure, and those that do not differ significantly from it. */
export function marks(r: EvaluationReport, f: Figure): Mark[] {
  const plans = r.plans ?? [];
  const values = plans.map((p) => valueOf(p, f));
  const known = values.filter((v) => v !== undefined);
  if (plans.length < 2 || known.length === 0) return values.map(() => "");
  const best = f.lower ? Math.min(...known) : Math.max(...known);
  const at = plans[values.indexOf(best)]?.plan;
  return values.map((v, i) => {
    if (v === best) return "best";
    const plan = plans[i]?.plan;
    const d = r.differences?.find(
      (d) => d.metric === f.metric && ((d.plan === plan && d.against === at) || (d.plan === at && d.against === plan)),
    );
    return d && d.p >= significant ? "level" : "";
  });
}

/** Formats a number with the digits that it needs beside others of its kind. */
export function figure(v: number, signed = false): string {
  const size = Math.abs(v);
  const text = size >= 1000 ? v.toFixed(0) : size >= 10 ? v.toFixed(1) : v.toFixed(4);
  return signed && v > 0 ? `+${text}` : text;
}
