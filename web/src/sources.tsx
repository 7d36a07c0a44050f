// The sources of collections: for admins.

import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "wouter";
import { get, type Page, withQuery } from "./api";
import { useCollections } from "./question";
import { NewSource } from "./sourceform";
import { count, when } from "./text";
import type { Source } from "./types";
import { Action, Dialogue, Empty, ErrorBox, Loading, PageHead, StateBadge } from "./ui";

/** Interval until a source is loaded again, in milliseconds: shorter while it is running. */
export const againAfter = (sources: Source[]) => (sources.some((s) => moving.includes(s.state)) ? 2000 : 5000);

const moving = ["running", "retrying", "limited", "removing"];

export const sourcePath = (name: string) => `/sources/${encodeURIComponent(name)}`;

/** Whether the source's permissions decide who sees the documents. */
export const follows = (settings: Source["settings"]) => settings.permissions === "follow";

export function SourcesPage() {
  const collections = useCollections();
  const list = useInfiniteQuery({
    queryKey: ["sources"],
    queryFn: ({ pageParam, signal }) => get<Page<Source>>(withQuery("/v1/sources", { limit: 50, cursor: pageParam }), signal),
    initialPageParam: "",
    getNextPageParam: (page) => page.next,
    refetchInterval: (q) => againAfter(q.state.data?.pages.flatMap((p) => p.items) ?? []),
  });
  const sources = list.data?.pages.flatMap((p) => p.items) ?? [];
  return (
    <>
      <PageHead title="Sources">
        <Dialogue button="New source" title="New source" look="primary">
          {(close) => <NewSource close={close} />}
        </Dialogue>
      </PageHead>
      <ErrorBox error={list.error} retry={() => void list.refetch()} />
      {list.isPending && <Loading />}
      {list.isSuccess && sources.length === 0 && (
        <Empty>There are no sources yet. A source keeps a collection in step with a folder, a share, a site or another system.</Empty>
      )}
      {sources.length > 0 && (
        <table className="documents">
          <thead>
            <tr>
              <th>Source</th>
              <th>State</th>
              <th>Kind</th>
              <th>Collection</th>
              <th className="number">Documents</th>
              <th>Newest run</th>
              <th className="number">Seen</th>
              <th className="number">Added</th>
              <th className="number">Changed</th>
              <th className="number">Deleted</th>
              <th className="number">Skipped</th>
              <th>Next</th>
            </tr>
          </thead>
          <tbody>
            {sources.map((s) => (
              <SourceRow key={s.id} source={s} collection={collections.data?.find((c) => c.id === s.collection_id)?.name} />
            ))}
          </tbody>
        </table>
      )}
      {list.hasNextPage && (
        <Action isPending={list.isFetchingNextPage} onPress={() => void list.fetchNextPage()}>
          More sources
        </Action>
      )}
    </>
  );
}

function SourceRow({ source: s, collection }: { source: Source; collection?: string }) {
  const r = s.run;
  const number = (label: string, n: number | undefined) => (
    <td className="number" data-label={label}>
      {n === undefined ? "-" : count(n)}
    </td>
  );
  return (
    <tr>
      <td className="wide">
        <Link href={sourcePath(s.name)}>{s.name}</Link>
        {s.problem && <div className="reason">{s.problem}</div>}
      </td>
      <td>
        <StateBadge state={s.state} />
      </td>
      <td data-label="Kind">{s.driver}</td>
      <td data-label="Collection" className="wide">
        {collection && <Link href={`/collections/${encodeURIComponent(collection)}`}>{collection}</Link>}
      </td>
      {number("Documents", s.documents)}
      <td data-label="Newest run">{r ? when(r.finished_at ?? r.started_at) : "none yet"}</td>
      {number("Seen", r?.seen)}
      {number("Added", r?.added)}
      {number("Changed", r?.changed)}
      {number("Deleted", r?.deleted)}
      {number("Skipped", r?.skipped)}
      <td data-label="Next">{s.next_at ? when(s.next_at) : "-"}</td>
    </tr>
  );
}
