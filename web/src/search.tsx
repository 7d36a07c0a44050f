import { useEffect, useRef, useState } from "react";
import { Link, useSearchParams } from "wouter";
import { call } from "./api";
import { Funnel } from "./funnel";
import { PlaceLink } from "./place";
import { type Asked, QuestionForm, usePlans } from "./question";
import { millis, plural, score, spanPath } from "./text";
import type { Candidate, SearchResult } from "./types";
import { Choice, Empty, ErrorBox, Loading, PageHead } from "./ui";

const none = "none";

/** The outcome of a search by one plan. */
interface Run {
  plan: string;
  found?: SearchResult;
  error?: Error;
}

export function SearchPage() {
  const [params, setParams] = useSearchParams();
  const [runs, setRuns] = useState<Run[]>([]);
  const leave = useRef<AbortController>(null);
  useEffect(() => () => leave.current?.abort(), []);
  const plans = usePlans();
  const beside = params.get("beside") ?? none;
  const busy = runs.some((r) => !r.found && !r.error);

  const search = async (q: Asked) => {
    leave.current?.abort();
    const controller = new AbortController();
    leave.current = controller;
    const asked = beside === none ? [q] : [q, { ...q, plan: beside }];
    setRuns(asked.map((a) => ({ plan: a.plan ?? "" })));
    const tell = (n: number, what: Partial<Run>) => {
      if (!controller.signal.aborted) setRuns((old) => old.map((r, i) => (i === n ? { ...r, ...what } : r)));
    };
    await Promise.all(
      asked.map((a, n) =>
        call<SearchResult>("POST", "/v1/search", { ...a, explain: true }, controller.signal)
          .then((found) => tell(n, { found }))
          .catch((error: Error) => tell(n, { error })),
      ),
    );
  };
  return (
    <>
      <PageHead title="Search" />
      <QuestionForm label="Search" busy={busy} submit={(q) => void search(q)}>
        <Choice
          label="Beside it"
          value={beside}
          onChange={(v) =>
            setParams(
              (old) => {
                if (v === none) old.delete("beside");
                else old.set("beside", v);
                return old;
              },
              { replace: true },
            )
          }
          options={[
            { id: none, text: "no other plan" },
            ...(plans.data ?? []).map((p) => ({ id: p.name, text: p.name, detail: p.description })),
          ]}
        />
      </QuestionForm>
      <div className={runs.length > 1 ? "beside" : "alone"}>
        {runs.map((r, i) => (
          <section key={`${i}.${r.plan}`} aria-label={r.found ? `Found by ${r.found.plan}` : "Searching"}>
            {!r.found && !r.error && <Loading />}
            <ErrorBox error={r.error} />
            {r.found && <Found found={r.found} />}
          </section>
        ))}
      </div>
    </>
  );
}

export function Found({ found }: { found: SearchResult }) {
  const passages = found.passages ?? [];
  return (
    <>
      <p role="status">
        {plural(passages.length, "passage")} by the plan {found.plan} in {millis(found.ms)}
      </p>
      {found.trace && found.trace.length > 0 && (
        <>
          <h2>How they were found</h2>
          <Funnel trace={found.trace} />
        </>
      )}
      {passages.length === 0 ? (
        <Empty>Nothing was found.</Empty>
      ) : (
        <>
          <h2>Passages</h2>
          <ol className="sources">
            {passages.map((c, i) => (
              <Passage key={`${c.passage}.${c.spans?.[0]?.start}`} candidate={c} used={found.context?.includes(i) ?? false} />
            ))}
          </ol>
        </>
      )}
    </>
  );
}

function Passage({ candidate: c, used }: { candidate: Candidate; used: boolean }) {
  const scores = Object.entries(c.scores ?? {})
    .map(([k, v]) => `${k} ${score(v)}`)
    .join(", ");
  const path = spanPath(c.document_id, c.spans?.[0]);
  return (
    <li>
      <Link href={path}>{c.title || c.document}</Link>
      <PlaceLink path={path} page={c.page} location={c.location} /> {used && <span className="badge ready">to answer from</span>}
      <p className="passage-text">{c.text}</p>
      <p className="quiet">
        {c.unit}, score {score(c.score)}
        {scores && ` (${scores})`}, found by {c.origin}
      </p>
    </li>
  );
}
