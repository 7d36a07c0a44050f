import { useEffect, useRef, useState } from "react";
import { Link } from "wouter";
import { call } from "./api";
import { Funnel } from "./funnel";
import { type Asked, QuestionForm } from "./question";
import { millis, plural, score, spanPath } from "./text";
import type { Candidate, SearchResult } from "./types";
import { Empty, ErrorBox, Loading, PageHead } from "./ui";

export function SearchPage() {
  const [found, setFound] = useState<SearchResult | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const [busy, setBusy] = useState(false);
  const leave = useRef<AbortController>(null);
  useEffect(() => () => leave.current?.abort(), []);

  const search = async (q: Asked) => {
    const controller = new AbortController();
    leave.current = controller;
    setBusy(true);
    setError(null);
    setFound(null);
    try {
      setFound(await call<SearchResult>("POST", "/v1/search", { ...q, explain: true }, controller.signal));
    } catch (e) {
      if (!controller.signal.aborted) setError(e as Error);
    }
    if (!controller.signal.aborted) setBusy(false);
  };
  return (
    <>
      <PageHead title="Search" />
      <QuestionForm label="Search" busy={busy} submit={(q) => void search(q)} />
      {busy && <Loading />}
      <ErrorBox error={error} />
      {found && <Found found={found} />}
    </>
  );
}

function Found({ found }: { found: SearchResult }) {
  return (
    <>
      <p role="status">
        {plural(found.passages.length, "passage")} by the plan {found.plan} in {millis(found.ms)}
      </p>
      {found.trace.length > 0 && (
        <>
          <h2>How they were found</h2>
          <Funnel trace={found.trace} />
        </>
      )}
      {found.passages.length === 0 ? (
        <Empty>Nothing was found.</Empty>
      ) : (
        <>
          <h2>Passages</h2>
          <ol className="sources">
            {found.passages.map((c, i) => (
              <Passage key={`${c.passage}.${c.spans[0]?.start}`} candidate={c} used={found.context.includes(i)} />
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
  return (
    <li>
      <Link href={spanPath(c.document_id, c.spans[0])}>{c.title || c.document}</Link>
      <span className="quiet"> {c.location}</span> {used && <span className="badge ready">to answer from</span>}
      <p className="passage-text">{c.text}</p>
      <p className="quiet">
        {c.unit}, score {score(c.score)}
        {scores && ` (${scores})`}, found by {c.origin}
      </p>
    </li>
  );
}
