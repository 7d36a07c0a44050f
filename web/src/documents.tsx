import { useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { Link, useLocation, useSearchParams } from "wouter";
import { del, get, type Page, post, withQuery } from "./api";
import { Bulk } from "./bulk";
import { Counts, states } from "./collections";
import { Confirm } from "./confirm";
import { PlanChoices } from "./planchoices";
import { useSession } from "./session";
import { bytesOf, count, when } from "./text";
import type { Collection, Document as Doc } from "./types";
import { Action, Choice, Dialogue, Empty, ErrorBox, Field, Loading, PageHead, StateBadge } from "./ui";
import { Upload } from "./upload";
import { onUploaded } from "./uploads";

const moving = (c: Collection | undefined) =>
  (["received", "queued", "processing"] as const).some((s) => (c?.counts?.[s] ?? 0) > 0);

export function DocumentsPage({ name }: { name: string }) {
  const { may } = useSession();
  const cache = useQueryClient();
  const path = `/v1/collections/${encodeURIComponent(name)}`;
  const collection = useQuery({
    queryKey: ["collection", name],
    queryFn: ({ signal }) => get<Collection>(path, signal),
    refetchInterval: (q) => (moving(q.state.data) ? 2000 : false),
  });
  // The list is reloaded while documents are processed, and once after the last one is finished.
  const counts = JSON.stringify(collection.data?.counts);
  useEffect(() => {
    if (counts) void cache.invalidateQueries({ queryKey: ["documents", name] });
  }, [cache, name, counts]);
  useEffect(
    () =>
      onUploaded((c) => {
        if (c === name) void cache.invalidateQueries({ queryKey: ["collection", name] });
      }),
    [cache, name],
  );

  if (collection.isPending) return <Loading />;
  if (!collection.data) {
    return (
      <>
        <PageHead title={name} above={<Link href="/collections">Collections</Link>} />
        <ErrorBox error={collection.error} retry={() => void collection.refetch()} />
      </>
    );
  }
  const c = collection.data;
  const failed = c.counts?.failed ?? 0;
  const retryAll = async () => {
    await post(`${path}/retry`);
    await cache.invalidateQueries({ queryKey: ["collection", name] });
  };
  return (
    <>
      <PageHead title={c.name} above={<Link href="/collections">Collections</Link>}>
        {may("query", c.id) && (
          <Link className="action" href={withQuery("/ask", { collection: c.name })}>
            Ask about it
          </Link>
        )}
        {may("ingest", c.id) && failed > 0 && (
          <Action onPress={() => void retryAll()}>Retry all {count(failed)} failed</Action>
        )}
        {may("admin") && <DeleteCollection collection={c} />}
      </PageHead>
      {c.description && <p>{c.description}</p>}
      <Counts counts={c.counts} />
      <dl className="facts">
        <div>
          <dt>Size</dt>
          <dd>{bytesOf(c.bytes)}</dd>
        </div>
        <div>
          <dt>Passages</dt>
          <dd>{count(c.passages)}</dd>
        </div>
        <div>
          <dt>Language</dt>
          <dd>{c.language}</dd>
        </div>
        <div>
          <dt>Cut by</dt>
          <dd>{c.segmentation.by}</dd>
        </div>
        <div>
          <dt>Encoder</dt>
          <dd>{c.space || "none yet"}</dd>
        </div>
        <div>
          <dt>Plan</dt>
          <dd>{c.plan || "the server's default"}</dd>
        </div>
        <div>
          <dt>Generation</dt>
          <dd>{c.generation}</dd>
        </div>
      </dl>
      {may("curate", c.id) && <PlanChoices collection={c.name} />}
      {may("ingest", c.id) && <Upload collection={c.name} />}
      <DocumentList collection={c.name} managed={may("ingest", c.id)} />
    </>
  );
}

const pageSize = 50;

const orders = [
  ["oldest", "oldest first"],
  ["newest", "newest first"],
  ["name", "by name"],
  ["largest", "largest first"],
  ["smallest", "smallest first"],
  ["state", "by state"],
] as const;

/** The documents of a collection. If the user manages them, they can be selected. */
function DocumentList({ collection, managed }: { collection: string; managed: boolean }) {
  const [params, setParams] = useSearchParams();
  const state = params.get("state") ?? "";
  const part = params.get("name") ?? "";
  const label = params.get("label") ?? "";
  const sort = params.get("sort") ?? "oldest";
  const [typed, setTyped] = useState(part);
  const [labelTyped, setLabelTyped] = useState(label);
  const [selected, setSelected] = useState<ReadonlyMap<string, Doc>>(new Map());

  const filter = (name: string, value: string) =>
    setParams(
      (old) => {
        if (value) old.set(name, value);
        else old.delete(name);
        return old;
      },
      { replace: true },
    );
  useEffect(() => {
    const wait = setTimeout(() => {
      if (typed !== part) filter("name", typed);
      if (labelTyped !== label) filter("label", labelTyped);
    }, 300);
    return () => clearTimeout(wait);
  }, [typed, part, labelTyped, label]);

  const list = useInfiniteQuery({
    queryKey: ["documents", collection, state, part, label, sort],
    queryFn: ({ pageParam, signal }) =>
      get<Page<Doc>>(
        withQuery(`/v1/collections/${encodeURIComponent(collection)}/documents`, {
          state,
          contains: part,
          label,
          sort,
          cursor: pageParam,
          limit: pageSize,
        }),
        signal,
      ),
    initialPageParam: "",
    getNextPageParam: (page) => page.next,
    placeholderData: (old) => old,
  });
  const documents = list.data?.pages.flatMap((p) => p.items) ?? [];
  const toggle = (d: Doc, on: boolean) => {
    const next = new Map(selected);
    if (on) next.set(d.id, d);
    else next.delete(d.id);
    setSelected(next);
  };
  const allShown = documents.length > 0 && documents.every((d) => selected.has(d.id));
  return (
    <section aria-label="Documents">
      <div className="filters">
        <Choice
          label="State"
          value={state || "any"}
          onChange={(v) => filter("state", v === "any" ? "" : v)}
          options={["any", ...states].map((s) => ({ id: s, text: s }))}
        />
        <Field label="Name contains" value={typed} onChange={setTyped} />
        <Field label="Label" value={labelTyped} onChange={setLabelTyped} />
        <Choice
          label="Order"
          value={sort}
          onChange={(v) => filter("sort", v === "oldest" ? "" : v)}
          options={orders.map(([id, text]) => ({ id, text }))}
        />
      </div>
      {managed && selected.size > 0 && (
        <Bulk collection={collection} documents={[...selected.values()]} done={() => setSelected(new Map())} />
      )}
      <ErrorBox error={list.error} retry={() => void list.refetch()} />
      {list.isPending && <Loading />}
      {list.isSuccess && documents.length === 0 && (
        <Empty>{state || part || label ? "No document is like that." : "There are no documents yet."}</Empty>
      )}
      {documents.length > 0 && (
        <table className="documents">
          <thead>
            <tr>
              {managed && (
                <th className="check">
                  <input
                    type="checkbox"
                    aria-label="Select all that are shown"
                    checked={allShown}
                    onChange={(e) =>
                      setSelected(e.target.checked ? new Map(documents.map((d) => [d.id, d])) : new Map())
                    }
                  />
                </th>
              )}
              <th>Document</th>
              <th>State</th>
              <th className="number">Size</th>
              <th className="number">Passages</th>
              <th>Changed</th>
            </tr>
          </thead>
          <tbody>
            {documents.map((d) => (
              <Row key={d.id} document={d} selected={selected.has(d.id)} toggle={managed ? toggle : undefined} />
            ))}
          </tbody>
        </table>
      )}
      {list.hasNextPage && (
        <Action isPending={list.isFetchingNextPage} onPress={() => void list.fetchNextPage()}>
          More documents
        </Action>
      )}
    </section>
  );
}

function Row({
  document: d,
  selected,
  toggle,
}: {
  document: Doc;
  selected: boolean;
  toggle?: (d: Doc, on: boolean) => void;
}) {
  return (
    <tr aria-selected={toggle ? selected : undefined}>
      {toggle && (
        <td className="check">
          <input
            type="checkbox"
            aria-label={`Select ${d.external_id}`}
            checked={selected}
            onChange={(e) => toggle(d, e.target.checked)}
          />
        </td>
      )}
      <td className="wide">
        <Link href={`/documents/${d.id}`}>{d.external_id}</Link>
        {d.title && d.title !== d.external_id && <div className="quiet">{d.title}</div>}
        <Attributes document={d} />
        {d.reason && <div className="reason">{d.reason.message}</div>}
      </td>
      <td>
        <StateBadge state={d.state} />
        {d.live && d.state !== "ready" && <div className="quiet">an older version answers</div>}
      </td>
      <td className="number" data-label="Size">
        {bytesOf(d.bytes)}
      </td>
      <td className="number" data-label="Passages">
        {count(d.passages)}
      </td>
      <td data-label="Changed">{when(d.updated_at)}</td>
    </tr>
  );
}

/** How many metadata values a row shows. */
const fewMetadata = 4;

/** Details of a document: its version if it is not the first, its labels and metadata. */
function Attributes({ document: d }: { document: Doc }) {
  const metadata = Object.entries(d.metadata ?? {});
  const parts = [
    d.version > 1 && `version ${d.version}`,
    d.labels?.length && `for ${d.labels.join(", ")}`,
    ...metadata.slice(0, fewMetadata).map(([k, v]) => `${k}: ${Array.isArray(v) ? v.join(", ") : String(v)}`),
    metadata.length > fewMetadata && `${metadata.length - fewMetadata} more`,
  ].filter((p) => p);
  if (parts.length === 0) return null;
  return <div className="quiet">{parts.join(" · ")}</div>;
}

function DeleteCollection({ collection: c }: { collection: Collection }) {
  const cache = useQueryClient();
  const [, go] = useLocation();
  return (
    <Dialogue button="Delete" look="danger" title={`Delete ${c.name}?`}>
      {(close) => (
        <Confirm
          text="The collection goes with all its documents."
          action="Delete it"
          cancel={close}
          confirm={async () => {
            await del(`/v1/collections/${encodeURIComponent(c.name)}`);
            await cache.invalidateQueries({ queryKey: ["collections"] });
            close();
            go("/collections");
          }}
        />
      )}
    </Dialogue>
  );
}
