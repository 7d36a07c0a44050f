// Who read what, and who was refused: for admins.

import { useInfiniteQuery } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { Form } from "react-aria-components";
import { Link } from "wouter";
import { get, type Page, withQuery } from "./api";
import { when } from "./text";
import type { AuditRead } from "./types";
import { Action, Empty, ErrorBox, Field, Loading, PageHead } from "./ui";

interface Filter {
  actor: string;
  action: string;
  document: string;
  collection: string;
}

const everything: Filter = { actor: "", action: "", document: "", collection: "" };

export function AuditPage() {
  const [filter, setFilter] = useState(everything);
  const list = useInfiniteQuery({
    queryKey: ["audit", filter],
    queryFn: ({ pageParam, signal }) =>
      get<Page<AuditRead>>(withQuery("/v1/audit/reads", { ...filter, limit: 50, cursor: pageParam }), signal),
    initialPageParam: "",
    getNextPageParam: (page) => page.next,
  });
  const reads = list.data?.pages.flatMap((p) => p.items) ?? [];
  return (
    <>
      <PageHead title="Audit">
        <Action isPending={list.isRefetching} onPress={() => void list.refetch()}>
          Look again
        </Action>
      </PageHead>
      <Filters apply={setFilter} />
      <ErrorBox error={list.error} retry={() => void list.refetch()} />
      {list.isPending && <Loading />}
      {list.isSuccess && reads.length === 0 && <Empty>Nobody read anything like that.</Empty>}
      {reads.length > 0 && <Reads of={reads} />}
      {list.hasNextPage && (
        <Action isPending={list.isFetchingNextPage} onPress={() => void list.fetchNextPage()}>
          Earlier ones
        </Action>
      )}
    </>
  );
}

function Filters({ apply }: { apply: (f: Filter) => void }) {
  const [f, set] = useState(everything);
  const trimmed = () => Object.fromEntries(Object.entries(f).map(([name, text]) => [name, text.trim()])) as unknown as Filter;
  const submit = (e: FormEvent) => {
    e.preventDefault();
    apply(trimmed());
  };
  return (
    <Form className="filters" onSubmit={submit}>
      <Field label="Who" placeholder="a key or a person" value={f.actor} onChange={(actor) => set({ ...f, actor })} />
      <Field label="Action" placeholder="get-content" value={f.action} onChange={(action) => set({ ...f, action })} />
      <Field label="Collection" value={f.collection} onChange={(collection) => set({ ...f, collection })} />
      <Field label="Document" placeholder="its id" value={f.document} onChange={(document) => set({ ...f, document })} />
      <Action type="submit">Show</Action>
    </Form>
  );
}

function Reads({ of }: { of: AuditRead[] }) {
  return (
    <table className="documents">
      <thead>
        <tr>
          <th>What</th>
          <th>Action</th>
          <th>Result</th>
          <th>Who</th>
          <th>From</th>
          <th>When</th>
        </tr>
      </thead>
      <tbody>
        {of.map((r) => (
          <tr key={r.id}>
            <td className="wide">
              {r.query || r.target || r.collection}
              <Shown documents={r.documents ?? []} />
            </td>
            <td data-label="Action">{r.via ? `${r.action} (${r.via})` : r.action}</td>
            <td data-label="Result">{r.status}</td>
            <td data-label="Who">{r.person ? `${r.person} (${r.key_name})` : r.key_name}</td>
            <td data-label="From" title={r.user_agent}>
              {r.address}
            </td>
            <td data-label="When">{when(r.at)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** The documents that a read returned; the first few are links. */
function Shown({ documents }: { documents: string[] }) {
  const most = 5;
  if (documents.length === 0) return null;
  return (
    <div className="quiet">
      showed{" "}
      {documents.slice(0, most).map((id, n) => (
        <span key={id}>
          {n > 0 && ", "}
          <Link href={`/documents/${id}`}>document {n + 1}</Link>
        </span>
      ))}
      {documents.length > most && ` and ${documents.length - most} more`}
    </div>
  );
}
