// The original of a document beside its text: a PDF's pages, with citations marked on them. The
// code that draws them is loaded when it is needed.

import { type ComponentType, useEffect, useMemo, useState } from "react";
import { Link } from "wouter";
import { withQuery } from "./api";
import { useAskedAnswer, useCitedPlace, useCitedSection } from "./cited";
import { Bytes, bytesOf } from "./text";
import type { Box, DocumentDetail, Span, Version } from "./types";
import { Action, ErrorBox, Loading } from "./ui";

/** Draws the pages of a PDF. */
export type PagesView = ComponentType<{
  /** The address of its bytes. */
  path: string;
  /** The page to show first. */
  first: number;
  places: Places;
}>;

/** The marks on the pages. */
export interface Places {
  cited: Box[];
  /** The part of it that is an answer by itself. */
  answer: Box[];
}

/** Maximum size in bytes of a PDF that is shown: the browser keeps all of it in memory. */
const mostBytes = 100 * 1024 * 1024;

/** The version of a span; without a span, the live version or else the newest. */
function versionOf(d: DocumentDetail, span: Span | null): Version | undefined {
  const versions = d.versions ?? [];
  if (span?.version) return versions.find((v) => v.id === span.version);
  return versions.find((v) => v.state === "ready") ?? versions[0];
}

/** Whether a document has pages to show. */
export const hasPages = (d: DocumentDetail, span: Span | null) =>
  (versionOf(d, span)?.media_type ?? d.media_type) === "application/pdf";

export function Original({ document: d, span }: { document: DocumentDetail; span: Span | null }) {
  const [wanted, setWanted] = useState(false);
  if (!hasPages(d, span)) return null;
  const version = versionOf(d, span);
  const path = withQuery(`/v1/documents/${d.id}/content`, { version: version?.id ?? span?.version });
  const large = (version?.bytes ?? 0) > mostBytes;
  return (
    <section className="pages" aria-label="Pages">
      <div className="row">
        <h2>Pages</h2>
        {span === null && !large && (
          <Action onPress={() => setWanted(!wanted)}>{wanted ? "Hide the pages" : "Show the pages"}</Action>
        )}
      </div>
      {large && (
        <p>
          At {bytesOf(version?.bytes)} it is too large to be shown here, where files have up to {bytesOf(mostBytes)}.{" "}
          <a href={path} download={d.external_id.split("/").pop()}>
            Download it
          </a>
        </p>
      )}
      {!large && span && <Cited key={path} document={d} span={span} path={path} />}
      {!large && !span && wanted && <Pages path={path} first={1} places={nowhere} />}
    </section>
  );
}

const nowhere: Places = { cited: [], answer: [] };

/** The page with the citation, beside the text. */
function Cited({ document: d, span, path }: { document: DocumentDetail; span: Span; path: string }) {
  const place = useCitedPlace(d.id, span);
  const answer = useAskedAnswer(span);
  const answered = useCitedPlace(d.id, answer);
  const section = useCitedSection(d.id, span);
  const places = useMemo(
    () => ({ cited: place.data?.boxes ?? [], answer: answered.data?.boxes ?? [] }),
    [place.data, answered.data],
  );
  const text = useMemo(() => new Bytes(section.data?.items[0]?.text ?? ""), [section.data]);
  if (place.isPending || answered.isLoading) return <Loading />;
  if (!place.data) {
    return (
      <>
        <ErrorBox error={place.error} retry={() => void place.refetch()} />
        <p>
          <Link href={`/documents/${d.id}`}>The document as it is now</Link>
        </p>
      </>
    );
  }
  const on = [...new Set(places.cited.map((b) => b.page))];
  const page = on[0] ?? place.data.page;
  return (
    <div className="pages-beside">
      <Pages path={path} first={page ?? 1} places={places} />
      <aside aria-label="What is cited">
        <h3>What is cited</h3>
        {text.length > 0 && (
          <blockquote>
            {text.slice(span.start, answer?.start ?? span.end)}
            {answer && <mark>{text.slice(answer.start, answer.end)}</mark>}
            {answer && text.slice(answer.end, span.end)}
          </blockquote>
        )}
        <p className="quiet">
          {on.length > 1 ? `Marked on the pages ${on.join(", ")}.` : on.length === 1 && `Marked on page ${on[0]}.`}
          {on.length === 0 &&
            `${page ? `It is on page ${page}; where on it` : "On which page it"} is not known. A document that was read before places were kept has them once it is deleted and uploaded anew.`}
        </p>
      </aside>
    </div>
  );
}

function Pages(props: { path: string; first: number; places: Places }) {
  const [view, setView] = useState<{ View: PagesView } | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const [tries, setTries] = useState(0);
  useEffect(() => {
    let left = false;
    import("./pages").then(
      (m) => !left && setView({ View: m.default }),
      () => !left && setError(new Error("The viewer of PDFs could not be loaded. Reload this page.")),
    );
    return () => {
      left = true;
    };
  }, [tries]);
  if (view) return <view.View {...props} />;
  return error ? (
    <ErrorBox
      error={error}
      retry={() => {
        setError(null);
        setTries(tries + 1);
      }}
    />
  ) : (
    <Loading />
  );
}
