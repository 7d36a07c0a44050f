// Two evaluations side by side.

import "./evaluations.css";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";
import { get } from "./api";
import { figure, significant } from "./evaluation";
import type { EvaluationComparison as Comparison, Interval, MetricComparison, PlanComparison } from "./types";
import { count, when } from "./text";
import { Empty, ErrorBox, Loading, PageHead } from "./ui";

export function ComparisonPage({ id, against }: { id: string; against: string }) {
  const [whole, setWhole] = useState(false);
  const compared = useQuery({
    queryKey: ["evaluation", id, against],
    queryFn: ({ signal }) => get<Comparison>(`/v1/evaluations/${id}/compare/${against}`, signal),
    staleTime: 300_000,
  });
  const above = <Link href="/evaluations">Evaluations</Link>;
  const c = compared.data;
  if (!c) {
    return (
      <>
        <PageHead title="Comparison" above={above} />
        {compared.error ? <ErrorBox error={compared.error} retry={() => void compared.refetch()} /> : <Loading />}
      </>
    );
  }
  const datasets = c.datasets ?? [];
  const known = datasets.some((d) => d.plans?.some((p) => p.metrics?.some((m) => m.interval)));
  return (
    <>
      <PageHead title={`${c.evaluation.name} against ${c.against.name}`} above={above}>
        <Link className="action" href={`/evaluations/${against}/compare/${id}`}>
          The other way round
        </Link>
      </PageHead>
      <p className="quiet">
        <Link href={`/evaluations/${id}`}>{c.evaluation.name}</Link> ran {when(c.evaluation.ran_at)},{" "}
        <Link href={`/evaluations/${against}`}>{c.against.name}</Link> {when(c.against.ran_at)}.
      </p>
      {known ? (
        <label className="check-line">
          <input type="checkbox" checked={whole} onChange={(e) => setWhole(e.target.checked)} />
          Also figures without an interval
        </label>
      ) : (
        <p>One of them was stored without the figures of each question, so any difference here may be chance.</p>
      )}
      {datasets.length === 0 && <Empty>They have no dataset in common.</Empty>}
      {datasets.map((d) => (
        <section key={`${d.dataset}.${d.split}`} aria-label={`${d.dataset}, ${d.split}`}>
          <h2>
            {d.dataset}, {d.split}
          </h2>
          {(d.documents !== d.documents_against || d.queries !== d.queries_against) && (
            <p className="worse">
              Not of the same: {count(d.documents)} documents and {count(d.queries)} questions against{" "}
              {count(d.documents_against)} and {count(d.queries_against)}.
            </p>
          )}
          {!d.plans?.length && <Empty>They have no plan in common.</Empty>}
          {d.plans?.map((p) => (
            <PlanTable key={p.plan} plan={p} name={`${d.dataset}, ${p.plan}`} whole={whole || !known} />
          ))}
        </section>
      ))}
    </>
  );
}

/** Whether a difference is an improvement; empty if there is no difference. */
function direction(m: MetricComparison): "better" | "worse" | "" {
  if (m.difference === 0) return "";
  return m.difference < 0 === !!m.lower_is_better ? "better" : "worse";
}

function verdict(m: MetricComparison): string {
  if (m.difference === 0) return "the same";
  if (m.p === undefined) return direction(m);
  return m.p < significant ? direction(m) : "not significant";
}

function PlanTable({ plan: p, name, whole }: { plan: PlanComparison; name: string; whole: boolean }) {
  const shown = (p.metrics ?? []).filter((m) => whole || m.interval);
  return (
    <>
      <h3>Plan {p.plan}</h3>
      {p.segmentation !== p.segmentation_against && (
        <p className="quiet">
          Documents cut by {p.segmentation}, against {p.segmentation_against}.
        </p>
      )}
      <div className="scroll" role="region" aria-label={name} tabIndex={0}>
        <table className="figures">
          <thead>
            <tr>
              <th scope="col">Figure</th>
              <th scope="col" className="number">
                Value
              </th>
              <th scope="col" className="number">
                Against
              </th>
              <th scope="col" className="number">
                Difference
              </th>
              <th scope="col">95 %</th>
              <th scope="col" className="number">
                p
              </th>
              <th scope="col">It is</th>
            </tr>
          </thead>
          <tbody>
            {shown.map((m) => {
              const said = verdict(m);
              const look = m.p !== undefined && m.p < significant ? direction(m) : "";
              return (
                <tr key={m.metric}>
                  <th scope="row">{m.metric}</th>
                  <td className="number" data-label="Value">
                    {figure(m.value)}
                  </td>
                  <td className="number" data-label="Against">
                    {figure(m.against)}
                  </td>
                  <td className={`number ${look}`} data-label="Difference">
                    {figure(m.difference, true)}
                  </td>
                  <td data-label="95 %">{m.interval && <IntervalPlot of={m.interval} difference={m.difference} />}</td>
                  <td className="number" data-label="p">
                    {m.p === undefined ? "" : m.p < 0.001 ? "< 0.001" : m.p.toFixed(3)}
                  </td>
                  <td className={look}>
                    <span aria-hidden="true">{m.difference > 0 ? "▲ " : m.difference < 0 ? "▼ " : ""}</span>
                    {said}
                    {m.questions !== undefined && <span className="hidden">, over {m.questions} questions</span>}
                  </td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </>
  );
}

/** The confidence interval of a difference, beside zero. */
function IntervalPlot({ of, difference }: { of: Interval; difference: number }) {
  const most = Math.max(Math.abs(of.low), Math.abs(of.high), 1e-12);
  const x = (v: number) => 50 + (45 * v) / most;
  const text = `${figure(of.low, true)} to ${figure(of.high, true)}`;
  return (
    <>
      <svg className="interval-plot" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
        <line className="zero" x1="50" x2="50" y1="0" y2="10" />
        <line x1={x(of.low)} x2={x(of.high)} y1="5" y2="5" />
        <line x1={x(difference)} x2={x(difference)} y1="2" y2="8" />
      </svg>
      <span className="quiet">{text}</span>
    </>
  );
}
