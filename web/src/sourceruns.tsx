// A source's runs, what they skipped, the items that are followed, and a preview of the next run.

import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";
import { get, type Page, withQuery } from "./api";
import { againAfter } from "./sources";
import { bytesOf, count, plural, when } from "./text";
import type { Source, SourceItem, SourcePreview, SourceRun, SourceSkipped } from "./types";
import { Action, Empty, ErrorBox, Loading, StateBadge } from "./ui";

export function Runs({ source: s }: { source: Source }) {
  const runs = useQuery({
    queryKey: ["source", s.name, "runs"],
    queryFn: ({ signal }) => get<Page<SourceRun>>(`/v1/sources/${s.id}/runs?limit=50`, signal),
    refetchInterval: againAfter([s]),
  });
  const items = runs.data?.items ?? [];
  const number = (label: string, n: number) => (
    <td className="number" data-label={label}>
      {count(n)}
    </td>
  );
  return (
    <section aria-label="Runs">
      <h2>Runs</h2>
      <ErrorBox error={runs.error} retry={() => void runs.refetch()} />
      {runs.isPending && <Loading />}
      {runs.isSuccess && items.length === 0 && <Empty>It has not run yet.</Empty>}
      {items.length > 0 && (
        <table className="documents">
          <thead>
            <tr>
              <th>Begun</th>
              <th>State</th>
              <th className="number">Seen</th>
              <th className="number">Added</th>
              <th className="number">Changed</th>
              <th className="number">Moved</th>
              <th className="number">Deleted</th>
              <th className="number">Skipped</th>
              <th className="number">Fetched</th>
              <th className="number">Size</th>
            </tr>
          </thead>
          <tbody>
            {items.map((r) => (
              <tr key={r.id}>
                <td className="wide">
                  {when(r.started_at)} {r.whole ? "" : <span className="quiet">what changed alone</span>}
                  {r.problem && <div className="reason">{r.problem}</div>}
                </td>
                <td>
                  <StateBadge state={r.state} />
                </td>
                {number("Seen", r.seen)}
                {number("Added", r.added)}
                {number("Changed", r.changed)}
                {number("Moved", r.moved)}
                {number("Deleted", r.deleted)}
                {number("Skipped", r.skipped)}
                {number("Fetched", r.fetched)}
                <td className="number" data-label="Size">
                  {bytesOf(r.bytes)}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}

export function Skipped({ source: s }: { source: Source }) {
  const list = useInfiniteQuery({
    queryKey: ["source", s.name, "skipped", s.run?.id, s.run?.skipped],
    queryFn: ({ pageParam, signal }) =>
      get<Page<SourceSkipped>>(withQuery(`/v1/sources/${s.id}/skipped`, { limit: 50, cursor: pageParam }), signal),
    initialPageParam: "",
    getNextPageParam: (page) => page.next,
  });
  const skipped = list.data?.pages.flatMap((p) => p.items) ?? [];
  return (
    <section aria-label="Skipped">
      <h2>What the newest run skipped</h2>
      <ErrorBox error={list.error} retry={() => void list.refetch()} />
      {list.isPending && <Loading />}
      <SkippedTable of={skipped} />
      {list.hasNextPage && (
        <Action isPending={list.isFetchingNextPage} onPress={() => void list.fetchNextPage()}>
          More
        </Action>
      )}
    </section>
  );
}

function SkippedTable({ of }: { of: SourceSkipped[] }) {
  if (of.length === 0) return null;
  return (
    <table className="documents">
      <thead>
        <tr>
          <th>Skipped</th>
          <th>Why</th>
        </tr>
      </thead>
      <tbody>
        {of.map((x, n) => (
          // One path may be skipped for two reasons.
          <tr key={`${n} ${x.path}`}>
            <td className="wide">{x.path}</td>
            <td className="wide">{x.reason}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** The items of a source, loaded when they are opened. */
export function Items({ source: s }: { source: Source }) {
  const [open, setOpen] = useState(false);
  const list = useInfiniteQuery({
    queryKey: ["source", s.name, "items", s.run?.id, s.pending],
    queryFn: ({ pageParam, signal }) =>
      get<Page<SourceItem>>(withQuery(`/v1/sources/${s.id}/items`, { limit: 50, cursor: pageParam }), signal),
    initialPageParam: "",
    getNextPageParam: (page) => page.next,
    enabled: open,
  });
  const items = list.data?.pages.flatMap((p) => p.items) ?? [];
  return (
    <details open={open} onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>{plural(s.items, "item")}</summary>
      <ErrorBox error={list.error} retry={() => void list.refetch()} />
      {open && list.isPending && <Loading />}
      {items.length > 0 && (
        <table className="documents">
          <thead>
            <tr>
              <th>Path</th>
              <th className="number">Size</th>
              <th>Changed</th>
              <th>To do</th>
            </tr>
          </thead>
          <tbody>
            {items.map((i) => (
              <tr key={i.item}>
                <td className="wide">
                  {i.document ? <Link href={`/documents/${i.document}`}>{i.path}</Link> : i.path}
                  {i.reason && <div className="reason">{i.reason}</div>}
                </td>
                <td className="number" data-label="Size">
                  {i.size < 0 ? "" : bytesOf(i.size)}
                </td>
                <td data-label="Changed">{when(i.modified_at)}</td>
                <td data-label="To do">{i.pending}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {list.hasNextPage && (
        <Action isPending={list.isFetchingNextPage} onPress={() => void list.fetchNextPage()}>
          More items
        </Action>
      )}
    </details>
  );
}

/** Maximum number of entries of a preview. */
const previewed = 100;

/** A preview of the next run. The source is asked each time. */
export function Preview({ source: s }: { source: Source }) {
  const found = useQuery({
    queryKey: ["source-preview", s.id],
    queryFn: ({ signal }) => get<SourcePreview>(`/v1/sources/${s.id}/preview?limit=${previewed}`, signal),
    gcTime: 0,
    retry: false,
    refetchOnWindowFocus: false,
  });
  const p = found.data;
  return (
    <section className="card" aria-label="Preview">
      <div className="row">
        <h2>What a run would find</h2>
        <Action isPending={found.isFetching} onPress={() => void found.refetch()}>
          Look again
        </Action>
      </div>
      <ErrorBox error={found.error} />
      {found.isPending && <Loading />}
      {p && !p.items?.length && !p.skipped?.length && <Empty>Nothing.</Empty>}
      {!!p?.items?.length && (
        <table className="documents">
          <thead>
            <tr>
              <th>Path</th>
              <th>Would be</th>
              <th className="number">Size</th>
              <th>Changed</th>
            </tr>
          </thead>
          <tbody>
            {p.items.map((i) => (
              <tr key={i.path}>
                <td className="wide">{i.path}</td>
                <td data-label="Would be">{would[i.would]}</td>
                <td className="number" data-label="Size">
                  {i.size < 0 ? "" : bytesOf(i.size)}
                </td>
                <td data-label="Changed">{when(i.modified_at)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      <SkippedTable of={p?.skipped ?? []} />
      {p?.more && <p className="quiet">There is more; {count(previewed)} are shown.</p>}
    </section>
  );
}

const would: Record<string, string> = { add: "added", fetch: "fetched to see what changed", keep: "kept as it is" };
