// Choosing the best plan for a collection: measured, shown as a table, and applied.

import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { get, type Page, post } from "./api";
import { count, when } from "./text";
import type { PlanChoice, PlanVerdicts } from "./types";
import { Action, ErrorBox } from "./ui";

const underWay = (c: PlanChoice | undefined) => c?.state === "queued" || c?.state === "running";

const verdicts: Record<string, string> = {
  chosen: "proposed",
  "as-good": "as good, costs more",
  best: "best, costs more",
  near: "near, costs more",
  worse: "worse",
  dropped: "clearly worse",
};

const points = (share: number) => (100 * share).toFixed(1);

export function PlanChoices({ collection }: { collection: string }) {
  const cache = useQueryClient();
  const path = `/v1/collections/${encodeURIComponent(collection)}/plan-choices`;
  const newest = useQuery({
    queryKey: ["plan-choice", collection],
    queryFn: async ({ signal }) => (await get<Page<PlanChoice>>(`${path}?limit=1`, signal)).items[0] ?? null,
    refetchInterval: (q) => (underWay(q.state.data ?? undefined) ? 1000 : false),
  });
  const [error, setError] = useState<Error | null>(null);
  const [busy, setBusy] = useState(false);
  const [open, setOpen] = useState(false);
  const act = async (to: string, body: unknown) => {
    setBusy(true);
    setError(null);
    try {
      await post<PlanChoice>(to, body);
      await Promise.all([
        cache.invalidateQueries({ queryKey: ["plan-choice", collection] }),
        cache.invalidateQueries({ queryKey: ["collection", collection] }),
      ]);
    } catch (e) {
      setError(e as Error);
    }
    setBusy(false);
  };
  const c = newest.data ?? undefined;
  return (
    <details className="plan-choices" open={open} onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>Which plan is best here?</summary>
      <ErrorBox error={newest.error ?? error} retry={() => void newest.refetch()} />
      {!c && <p className="quiet">No plan was measured on this collection yet.</p>}
      {c && <p>{progress(c)}</p>}
      {underWay(c) && <progress aria-label="Questions asked" max={c?.questions || 1} value={c?.asked ?? 0} />}
      {c?.reason && <p className="reason">{c.reason}</p>}
      {c?.result && <Verdicts result={c.result} />}
      {c?.notes?.map((n) => (
        <p key={n} className="quiet">
          {n}
        </p>
      ))}
      {c?.left_out?.map((l) => (
        <p key={l.plan} className="quiet">
          {l.plan} cannot be run here: {l.reason}
        </p>
      ))}
      <div className="actions">
        {c && underWay(c) && (
          <Action isPending={busy} onPress={() => void act(`${path}/${c.id}/cancel`, {})}>
            Cancel measuring
          </Action>
        )}
        {!underWay(c) && newest.isSuccess && (
          <Action isPending={busy} onPress={() => void act(path, {})}>
            {c ? "Measure again" : "Measure the plans"}
          </Action>
        )}
        {c?.result && c.applied !== c.result.plan && (
          <Action look="primary" isPending={busy} onPress={() => void act(`${path}/${c.id}/apply`, {})}>
            Use {c.result.plan} here
          </Action>
        )}
      </div>
    </details>
  );
}

function progress(c: PlanChoice): string {
  const from = c.sources?.map((s) => `${count(s.questions)} ${s.source}`).join(", ");
  switch (c.state) {
    case "queued":
      return "Waiting for a worker.";
    case "running":
      return c.questions ? `${count(c.asked)} of ${count(c.questions)} questions asked (${from}).` : "Gathering questions.";
    case "done":
      return `Measured ${when(c.finished_at)} on ${count(c.asked)} questions (${from}).${c.applied ? ` ${c.applied} was applied.` : ""}`;
    case "cancelled":
      return "It was cancelled.";
    default:
      return "It failed.";
  }
}

function Verdicts({ result }: { result: PlanVerdicts }) {
  return (
    <>
      <p>
        <strong>{result.plan}</strong>{" "}
        {result.sure
          ? "is the cheapest plan that for sure loses less than a point."
          : `is the cheapest within a point of the best by mean; chance is not ruled out${result.needed ? `, which takes about ${count(result.needed)} questions` : ""}.`}
        {result.better && " It is better than the collection's plan, or as good and cheaper."}
      </p>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a wide table scrolls, by keyboard too */}
      <div className="scrolls" tabIndex={0} role="group" aria-label="Plans measured">
        <table>
          <thead>
            <tr>
              <th>Plan</th>
              <th>Quality</th>
              <th>95 % interval</th>
              <th>Loses</th>
              <th>Tokens</th>
              <th>ms</th>
              <th>Questions</th>
              <th>Verdict</th>
            </tr>
          </thead>
          <tbody>
            {result.plans?.map((p) => (
              <tr key={p.plan}>
                <th scope="row">
                  {p.plan}
                  {p.current && " (now)"}
                </th>
                <td>{points(p.quality)}</td>
                <td>
                  {points(p.interval.low)} to {points(p.interval.high)}
                </td>
                <td>{points(p.loss)}</td>
                <td>{count(Math.round(p.tokens))}</td>
                <td>{count(Math.round(p.ms))}</td>
                <td>{count(p.questions)}</td>
                <td>{verdicts[p.verdict] ?? p.verdict}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}
