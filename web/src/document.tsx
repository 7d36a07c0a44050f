import { useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useEffect, useMemo, useRef, useState } from "react";
import { Link, useLocation } from "wouter";
import { del, get, type Page, post, withQuery } from "./api";
import { useAskedSpan, useCitedSection } from "./cited";
import { Confirm } from "./confirm";
import { ExplainAccess } from "./explain";
import { hasPages, Original } from "./original";
import { useSession } from "./session";
import { Bytes, bytesOf, count, plural, when } from "./text";
import type { Collection, DocumentDetail as DocDetail, DocumentSection as Section, Span } from "./types";
import { Action, Dialogue, Empty, ErrorBox, Loading, PageHead, StateBadge } from "./ui";

const moves = (d: DocDetail | undefined) => ["received", "queued", "processing"].includes(d?.state ?? "");

export function DocumentPage({ id }: { id: string }) {
  const { may } = useSession();
  const cache = useQueryClient();
  const span = useAskedSpan();
  const [error, setError] = useState<Error | null>(null);
  const document = useQuery({
    queryKey: ["document", id],
    queryFn: ({ signal }) => get<DocDetail>(`/v1/documents/${id}`, signal),
    refetchInterval: (q) => (moves(q.state.data) ? 2000 : false),
  });
  const d = document.data;
  const collection = useQuery({
    queryKey: ["collection", d?.collection_id],
    queryFn: ({ signal }) => get<Collection>(`/v1/collections/${d?.collection_id}`, signal),
    enabled: d !== undefined,
  });
  if (document.isPending) return <Loading />;
  if (!d) {
    return (
      <>
        <PageHead title="Document" />
        <ErrorBox error={document.error} retry={() => void document.refetch()} />
      </>
    );
  }
  const name = collection.data?.name;
  const above = name ? <Link href={`/collections/${encodeURIComponent(name)}`}>{name}</Link> : "…";
  const retry = async () => {
    setError(null);
    try {
      await post(`/v1/documents/${id}/retry`);
    } catch (e) {
      setError(e as Error);
    }
    await cache.invalidateQueries({ queryKey: ["document", id] });
  };
  return (
    <>
      <PageHead title={d.title || d.external_id} above={above}>
        {may("query", d.collection_id) && (
          <a className="action" href={`/v1/documents/${id}/content`} download={d.external_id.split("/").pop()}>
            Download
          </a>
        )}
        {may("ingest", d.collection_id) && d.state === "failed" && <Action onPress={() => void retry()}>Retry</Action>}
        {may("ingest", d.collection_id) && <DeleteDocument document={d} collection={name} />}
      </PageHead>
      <ErrorBox error={error} />
      {d.reason && (
        <p className="reason">
          <b>{d.reason.code}</b>: {d.reason.message}
        </p>
      )}
      <Facts document={d} />
      <NearDuplicates document={d} />
      {may("admin") && <ExplainAccess document={id} />}
      {may("query", d.collection_id) && <Original document={d} span={span} />}
      {may("query", d.collection_id) &&
        (d.live ? (
          <DocumentText id={id} live={d} span={span} paged={hasPages(d, span)} />
        ) : (
          <Empty>No version of it can be read yet.</Empty>
        ))}
    </>
  );
}

function Facts({ document: d }: { document: DocDetail }) {
  const fact = (name: string, value: ReactNode) => (
    <div>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
  const metadata = Object.entries(d.metadata ?? {});
  return (
    <>
      <dl className="facts">
        {fact("State", <StateBadge state={d.state} />)}
        {fact("Name", d.external_id)}
        {fact("Type", d.media_type)}
        {fact("Size", bytesOf(d.bytes))}
        {fact("Sections", count(d.sections))}
        {fact("Passages", count(d.passages))}
        {fact("Labels", d.labels?.length ? d.labels.join(", ") : "none: open to its tenant")}
        {fact("Changed", when(d.updated_at))}
      </dl>
      <details>
        <summary>
          {plural(d.versions?.length ?? 0, "version")}
          {metadata.length > 0 && ", metadata"}
        </summary>
        <ul className="versions">
          {d.versions?.map((v) => (
            <li key={v.id}>
              Version {v.number} <StateBadge state={v.state} /> {bytesOf(v.bytes)}, {when(v.created_at)}, attempt{" "}
              {v.attempt}
              {v.reason && <span className="reason"> {v.reason.message}</span>}
            </li>
          ))}
        </ul>
        {metadata.length > 0 && (
          <dl className="facts">{metadata.map(([k, v]) => fact(k, typeof v === "string" ? v : JSON.stringify(v)))}</dl>
        )}
      </details>
    </>
  );
}

const rules = { version: "its version number", date: "its date", upload: "its time of upload" };

function NearDuplicates({ document: d }: { document: DocDetail }) {
  if (d.not_compared) return <p className="quiet">Not compared with other documents: {d.not_compared}.</p>;
  if (!d.near_duplicates?.length) return null;
  return (
    <details open>
      <summary>{plural(d.near_duplicates.length, "near-duplicate")}</summary>
      <ul className="versions">
        {d.near_duplicates.map((n) => (
          <li key={n.id}>
            <Link href={`/documents/${n.id}`}>{n.external_id}</Link>: {n.newer ? "newer" : "older"} by {rules[n.by]}, similarity{" "}
            {n.similarity.toFixed(2)}
          </li>
        ))}
      </ul>
    </details>
  );
}

function DeleteDocument({ document: d, collection }: { document: DocDetail; collection?: string }) {
  const cache = useQueryClient();
  const [, go] = useLocation();
  return (
    <Dialogue button="Delete" look="danger" title={`Delete ${d.external_id}?`}>
      {(close) => (
        <Confirm
          text="It is hidden at once and purged soon after."
          action="Delete it"
          cancel={close}
          confirm={async () => {
            await del(`/v1/documents/${d.id}`);
            await cache.invalidateQueries({ queryKey: ["documents"] });
            await cache.invalidateQueries({ queryKey: ["collection"] });
            close();
            go(collection ? `/collections/${encodeURIComponent(collection)}` : "/collections");
          }}
        />
      )}
    </Dialogue>
  );
}

function DocumentText({
  id,
  live,
  span,
  paged,
}: {
  id: string;
  live: DocDetail;
  span: Span | null;
  /** The original's pages are shown, too. */
  paged: boolean;
}) {
  const [whole, setWhole] = useState(span === null);
  useEffect(() => setWhole(span === null), [span]);
  const path = `/v1/documents/${id}/sections`;
  const one = useCitedSection(id, span);
  const all = useInfiniteQuery({
    queryKey: ["sections", id, live.updated_at],
    queryFn: ({ pageParam, signal }) => get<Page<Section>>(withQuery(path, { cursor: pageParam, limit: 20 }), signal),
    initialPageParam: "",
    getNextPageParam: (page) => page.next,
    enabled: whole,
  });
  const sections = whole ? (all.data?.pages.flatMap((p) => p.items) ?? []) : (one.data?.items ?? []);
  const shown = new Set(sections.map((s) => s.ordinal));
  const current = whole ? all : one;
  return (
    <section aria-label="Text">
      <div className="row">
        <h2>Text</h2>
        {span && (
          <Action onPress={() => setWhole(!whole)}>{whole ? "Only what was cited" : "The whole document"}</Action>
        )}
      </div>
      <ErrorBox error={current.error} retry={() => void current.refetch()} />
      {current.isPending && <Loading />}
      {current.isSuccess && sections.length === 0 && (
        <Empty>{span ? "The version that was cited is gone." : "It has no text."}</Empty>
      )}
      {sections.map((s) => (
        <SectionText key={s.id} section={s} span={span?.section === s.id ? span : null} shown={shown} paged={paged} />
      ))}
      {whole && all.hasNextPage && (
        <Action isPending={all.isFetchingNextPage} onPress={() => void all.fetchNextPage()}>
          More sections
        </Action>
      )}
    </section>
  );
}

function SectionText({
  section: s,
  span,
  shown,
  paged,
}: {
  section: Section;
  span: Span | null;
  /** The sections on the page. */
  shown: ReadonlySet<number>;
  /** The mark is scrolled into view on the original's page. */
  paged: boolean;
}) {
  const text = useMemo(() => new Bytes(s.text), [s.text]);
  const mark = useRef<HTMLElement>(null);
  useEffect(() => {
    if (span && !paged) mark.current?.scrollIntoView({ block: "center" });
  }, [span, paged]);
  const first = (start: number, end: number) => span !== null && span.start >= start && span.start < end;
  return (
    <article className="section" id={`s${s.ordinal}`} aria-label={`Section ${s.ordinal + 1}`}>
      <header>
        <h3>{s.heading_path?.length ? s.heading_path.join(" › ") : s.location}</h3>
        <p className="quiet">
          Section {s.ordinal + 1}, {s.location}, {plural(s.tokens, "token")}
          {s.cluster_id && (
            <>
              , cluster <code title={s.cluster_id}>{s.cluster_id.slice(-6)}</code>
            </>
          )}
        </p>
      </header>
      {s.passages?.map((p) => (
        <div className="passage" id={`s${s.ordinal}p${p.ordinal}`} key={p.ordinal}>
          <p className="passage-text">
            {text.slice(p.start, span ? clamp(span.start, p.start, p.end) : p.end)}
            {span && span.start < p.end && span.end > p.start && (
              <mark ref={first(p.start, p.end) ? mark : undefined}>
                {text.slice(clamp(span.start, p.start, p.end), clamp(span.end, p.start, p.end))}
              </mark>
            )}
            {span && text.slice(Math.max(clamp(span.end, p.start, p.end), clamp(span.start, p.start, p.end)), p.end)}
          </p>
          <p className="quiet passage-foot">
            Passage {p.ordinal + 1}, {plural(p.tokens, "token")}
            {p.links && p.links.length > 0 && (
              <>
                {" · linked to "}
                {p.links.slice(0, 5).map((l, i) => (
                  <span key={`${l.section}.${l.passage}`}>
                    {i > 0 && ", "}
                    {shown.has(l.section) ? <a href={`#s${l.section}p${l.passage}`}>{ordinals(l)}</a> : ordinals(l)} (
                    {l.weight.toFixed(2)})
                  </span>
                ))}
              </>
            )}
          </p>
        </div>
      ))}
    </article>
  );
}

const clamp = (n: number, low: number, high: number) => Math.min(Math.max(n, low), high);

/** A passage by the number of its section and its own, from 1. */
const ordinals = (l: { section: number; passage: number }) => `${l.section + 1}.${l.passage + 1}`;
