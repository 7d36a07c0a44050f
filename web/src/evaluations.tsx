import "./evaluations.css";
import { useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useLocation, useSearchParams } from "wouter";
import { del, get, type Page, withQuery } from "./api";
import { Confirm } from "./confirm";
import { answerFigures, type Figure, figure, marks, searchFigures, valueOf } from "./evaluation";
import type { Evaluation, EvaluationReport as Report } from "./types";
import { useSession } from "./session";
import { count, millis, plural, when } from "./text";
import { Action, Dialogue, Empty, ErrorBox, Loading, PageHead } from "./ui";

export function EvaluationsPage() {
  const [params] = useSearchParams();
  const [, go] = useLocation();
  const [chosen, setChosen] = useState<string[]>([]);
  const dataset = params.get("dataset") ?? "";
  const list = useInfiniteQuery({
    queryKey: ["evaluations", dataset],
    queryFn: ({ pageParam, signal }) =>
      get<Page<Evaluation>>(withQuery("/v1/evaluations", { limit: 50, dataset, cursor: pageParam }), signal),
    initialPageParam: "",
    getNextPageParam: (page) => page.next,
  });
  const all = list.data?.pages.flatMap((p) => p.items) ?? [];
  const toggle = (id: string) =>
    setChosen((old) => (old.includes(id) ? old.filter((o) => o !== id) : [...old.slice(-1), id]));
  const compare = () => {
    // Compare the newer one with the older one: the list starts with the newest.
    const [newer, older] = all.filter((e) => chosen.includes(e.id));
    if (newer && older) go(`/evaluations/${newer.id}/compare/${older.id}`);
  };
  return (
    <>
      <PageHead title="Evaluations">
        <Action look="primary" isDisabled={chosen.length !== 2} onPress={compare}>
          Compare two
        </Action>
      </PageHead>
      {dataset && (
        <p>
          Of the dataset <b>{dataset}</b>. <Link href="/evaluations">Show all</Link>
        </p>
      )}
      <ErrorBox error={list.error} retry={() => void list.refetch()} />
      {list.isPending && <Loading />}
      {list.isSuccess && all.length === 0 && (
        <Empty>
          No evaluation is stored yet. <code>sluice eval DATASET --plan naive,sluice --store</code> measures plans and stores
          what it found.
        </Empty>
      )}
      {all.length > 0 && (
        <table className="documents">
          <thead>
            <tr>
              <th className="check">
                <span className="hidden">To compare</span>
              </th>
              <th>Name</th>
              <th>Datasets</th>
              <th>Plans</th>
              <th>Ran</th>
            </tr>
          </thead>
          <tbody>
            {all.map((e) => (
              <tr key={e.id}>
                <td className="check">
                  <input
                    type="checkbox"
                    aria-label={`Compare ${e.name}`}
                    checked={chosen.includes(e.id)}
                    onChange={() => toggle(e.id)}
                  />
                </td>
                <td className="wide">
                  <Link href={`/evaluations/${e.id}`}>{e.name}</Link>
                  {e.notes && <div className="quiet">{e.notes}</div>}
                </td>
                <td data-label="Datasets">
                  {e.datasets?.map((d) => (
                    <div key={`${d.dataset}.${d.split}`}>
                      <Link href={withQuery("/evaluations", { dataset: d.dataset })}>{d.dataset}</Link>
                      <span className="quiet"> {plural(d.queries, "question")}</span>
                    </div>
                  ))}
                </td>
                <td data-label="Plans">{[...new Set(e.datasets?.flatMap((d) => d.plans ?? []))].join(", ")}</td>
                <td data-label="Ran">{when(e.ran_at)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {list.hasNextPage && (
        <Action isPending={list.isFetchingNextPage} onPress={() => void list.fetchNextPage()}>
          More evaluations
        </Action>
      )}
    </>
  );
}

export function EvaluationPage({ id }: { id: string }) {
  const cache = useQueryClient();
  const session = useSession();
  const [, go] = useLocation();
  const one = useQuery({
    queryKey: ["evaluation", id],
    queryFn: ({ signal }) => get<Evaluation>(`/v1/evaluations/${id}`, signal),
    staleTime: 300_000,
  });
  const e = one.data;
  const above = <Link href="/evaluations">Evaluations</Link>;
  if (!e) {
    return (
      <>
        <PageHead title="Evaluation" above={above} />
        {one.error ? <ErrorBox error={one.error} retry={() => void one.refetch()} /> : <Loading />}
      </>
    );
  }
  return (
    <>
      <PageHead title={e.name} above={above}>
        {session.may("ingest") && (
          <Dialogue button="Delete" title={`Delete ${e.name}?`} look="danger">
            {(close) => (
              <Confirm
                text="Its figures are gone then, for good."
                action="Delete"
                cancel={close}
                confirm={async () => {
                  await del(`/v1/evaluations/${id}`);
                  await cache.invalidateQueries({ queryKey: ["evaluations"] });
                  close();
                  go("/evaluations");
                }}
              />
            )}
          </Dialogue>
        )}
      </PageHead>
      <p className="quiet">
        Ran {when(e.ran_at)}. {e.figures ? "What each question gave is kept with it." : "What each question gave was not stored."}
      </p>
      {e.notes && <p className="wide">{e.notes}</p>}
      {(e.reports ?? []).map((r) => (
        <ReportView key={`${r.dataset}.${r.split}`} report={r} />
      ))}
    </>
  );
}

function ReportView({ report: r }: { report: Report }) {
  const title = `${r.dataset}, ${r.split}`;
  const plans = r.plans ?? [];
  const cuts = new Set(plans.map((p) => p.segmentation ?? ""));
  return (
    <section aria-label={title}>
      <h2>{title}</h2>
      <p className="quiet">
        {plural(r.documents, "document")}, {plural(r.queries, "question")}
        {r.failed > 0 && `; ${plural(r.failed, "document")} could not be ingested`}
        {r.unjudged > 0 && `; ${plural(r.unjudged, "question")} without a relevant document left out`}
        {r.segmentation && `; cut by ${r.segmentation}`}. {plural(r.parallel, "question")} at once.
      </p>
      <FigureTable report={r} figures={searchFigures} title="What is found" />
      {plans.some((p) => p.answer_ms) && <FigureTable report={r} figures={answerFigures} title="What is answered" />}
      <p className="quiet">
        {plans.length > 1 && "★ best; ~ not significantly different from the best (paired bootstrap over the questions, p ≥ 0.05)."}
        {cuts.size > 1 && ` ${plans.map((p) => `${p.plan} searched documents cut by ${p.segmentation}`).join("; ")}.`}
        {plans.map((p) => (p.errors ? ` ${p.plan}: ${plural(p.errors, "answer")} failed.` : "")).join("")}
      </p>
      <div className="plots">
        {[...searchFigures, ...answerFigures]
          .filter((f) => plans.some((p) => p.intervals[f.metric]) || f.metric === "ms_p50")
          .map((f) => (
            <Bars key={f.metric} report={r} figure={f} />
          ))}
      </div>
      <details>
        <summary>Time in each stage</summary>
        <div className="scroll">
          <table>
            <thead>
              <tr>
                <th>Plan</th>
                <th>Stage</th>
                <th className="number">p50</th>
                <th className="number">p95</th>
                <th className="number">mean</th>
              </tr>
            </thead>
            <tbody>
              {plans.flatMap((p) =>
                p.stages?.map((s, i) => (
                  <tr key={`${p.plan}.${i}`}>
                    <td>{p.plan}</td>
                    <td>{s.stage}</td>
                    <td className="number" data-label="p50">
                      {millis(s.p50)}
                    </td>
                    <td className="number" data-label="p95">
                      {millis(s.p95)}
                    </td>
                    <td className="number" data-label="mean">
                      {millis(s.mean)}
                    </td>
                  </tr>
                )),
              )}
            </tbody>
          </table>
        </div>
      </details>
    </section>
  );
}

const signs = { best: "★", level: "~", "": "" };
const words = { best: "best", level: "not significantly different from the best", "": "" };

function FigureTable({ report: r, figures, title }: { report: Report; figures: Figure[]; title: string }) {
  const shown = figures.filter((f) => r.plans?.some((p) => valueOf(p, f) !== undefined));
  const marked = shown.map((f) => marks(r, f));
  return (
    <div className="scroll" role="region" aria-label={`${title}, ${r.dataset}`} tabIndex={0}>
      <table className="figures">
        <caption className="hidden">{title}</caption>
        <thead>
          <tr>
            <th scope="col">Plan</th>
            {shown.map((f) => (
              <th key={f.metric} scope="col" className="number">
                {f.title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {r.plans?.map((p, i) => (
            <tr key={p.plan}>
              <th scope="row">{p.plan}</th>
              {shown.map((f, c) => {
                const v = valueOf(p, f);
                const mark = marked[c]?.[i] ?? "";
                return (
                  <td key={f.metric} className={`number ${mark}`} data-label={f.title}>
                    {v === undefined ? "–" : v.toFixed(f.digits)}
                    {mark && (
                      <span title={words[mark]}>
                        <span aria-hidden="true"> {signs[mark]}</span>
                        <span className="hidden"> {words[mark]}</span>
                      </span>
                    )}
                  </td>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const row = 26;
const left = 96;
const width = 320;

/** A bar for each plan, with its 95 % interval if it is known. The table shows the same in words. */
function Bars({ report: r, figure: f }: { report: Report; figure: Figure }) {
  const rows = (r.plans ?? []).map((p) => ({ plan: p.plan, value: valueOf(p, f), interval: p.intervals[f.metric] }));
  const most = Math.max(1e-9, ...rows.map((b) => Math.max(b.value ?? 0, b.interval?.high ?? 0)));
  const x = (v: number) => left + (Math.max(0, v) / most) * (width - left - 60);
  const text = rows.map((b) => `${b.plan} ${b.value === undefined ? "unknown" : figure(b.value)}`).join(", ");
  return (
    <figure className="plot">
      <figcaption>
        {f.title}
        {f.lower && <span className="quiet">, less is better</span>}
      </figcaption>
      <svg viewBox={`0 0 ${width} ${rows.length * row}`} role="img" aria-label={`${f.title}: ${text}`}>
        {rows.map((b, i) => (
          <g key={b.plan} transform={`translate(0 ${i * row})`}>
            <text x={left - 6} y={row / 2 + 4} textAnchor="end">
              {b.plan.length > 14 ? `${b.plan.slice(0, 13)}…` : b.plan}
            </text>
            {b.value !== undefined && (
              <>
                <rect x={left} y={5} width={x(b.value) - left} height={row - 10} />
                {b.interval && (
                  <>
                    <line x1={x(b.interval.low)} x2={x(b.interval.high)} y1={row / 2} y2={row / 2} />
                    <line x1={x(b.interval.low)} x2={x(b.interval.low)} y1={row / 2 - 4} y2={row / 2 + 4} />
                    <line x1={x(b.interval.high)} x2={x(b.interval.high)} y1={row / 2 - 4} y2={row / 2 + 4} />
                  </>
                )}
                <text x={Math.max(x(b.value), x(b.interval?.high ?? 0)) + 6} y={row / 2 + 4}>
                  {f.digits === 0 ? count(Math.round(b.value)) : b.value.toFixed(Math.min(f.digits, 3))}
                </text>
              </>
            )}
          </g>
        ))}
      </svg>
    </figure>
  );
}
