// One source: what it does, what its runs did, and what can be done with it.

import { useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { Checkbox } from "react-aria-components";
import { Link, Redirect, useLocation } from "wouter";
import { APIError, del, get, type Page, post, withQuery } from "./api";
import { Confirm } from "./confirm";
import { useCollections } from "./question";
import { ChangeSource } from "./sourceform";
import { againAfter, follows, sourcePath } from "./sources";
import { bytesOf, count, plural, when } from "./text";
import type { Source, SourceItem, SourcePreview, SourceRun, SourceSkipped } from "./types";
import { Action, Dialogue, Empty, ErrorBox, Loading, PageHead, sentence, StateBadge } from "./ui";

/** What a state means. */
const meaning: Record<Source["state"], string> = {
  waiting: "It waits for its time.",
  running: "The place is listed, and what is new is fetched.",
  retrying: "The place does not answer, and is tried again.",
  limited: "The place asked for fewer requests, and is given the time that it asked for.",
  asking: "Much is gone at once; nothing was deleted.",
  refused: "The place refuses the credentials: change the settings.",
  invalid: "A setting is wrong: change it.",
  paused: "Somebody paused it.",
  removing: "It is being removed.",
};

export function SourcePage({ name }: { name: string }) {
  const source = useQuery({
    queryKey: ["source", name],
    queryFn: ({ signal }) => get<Source>(`/v1/sources/${encodeURIComponent(name)}`, signal),
    refetchInterval: (q) => againAfter(q.state.data ? [q.state.data] : []),
  });
  const s = source.data;
  const above = <Link href="/sources">Sources</Link>;
  // One that is removed is gone when all of its documents are.
  const gone = source.error instanceof APIError && source.error.status === 404;
  if (!s || gone) {
    return (
      <>
        <PageHead title={name} above={above} />
        <ErrorBox error={source.error} retry={() => void source.refetch()} />
        {source.isPending && <Loading />}
      </>
    );
  }
  // Links by its id end at its name.
  if (s.name !== name) return <Redirect to={sourcePath(s.name)} replace />;
  return <Shown source={s} above={above} lost={source.error} />;
}

/** A source as it was last seen; lost is why it could not be looked at again. */
function Shown({ source: s, above, lost }: { source: Source; above: ReactNode; lost: Error | null }) {
  const cache = useQueryClient();
  const [error, setError] = useState<Error | null>(null);
  const [preview, setPreview] = useState(false);
  const path = `/v1/sources/${s.id}`;
  const act = async (what: string) => {
    setError(null);
    try {
      cache.setQueryData(["source", s.name], await post<Source>(`${path}/${what}`));
    } catch (e) {
      setError(e as Error);
    }
    await cache.invalidateQueries({ queryKey: ["source", s.name] });
  };
  const stopped = ["paused", "refused", "invalid"].includes(s.state);
  return (
    <>
      <PageHead title={s.name} above={above}>
        {follows(s.settings) && (
          <Link className="action" href={`${sourcePath(s.name)}/principals`}>
            Users and groups
          </Link>
        )}
        {s.state !== "removing" && (
          <>
            {!stopped && s.state !== "running" && s.state !== "asking" && <Action onPress={() => void act("run")}>Run now</Action>}
            {s.run && !s.run.finished_at && s.state !== "asking" && <Action onPress={() => void act("cancel")}>End the run</Action>}
            {stopped ? (
              <Action onPress={() => void act("resume")}>Resume</Action>
            ) : (
              s.state !== "asking" && <Action onPress={() => void act("pause")}>Pause</Action>
            )}
            <Action aria-expanded={preview} onPress={() => setPreview(!preview)}>
              Preview
            </Action>
            <Dialogue button="Change" title={`Change ${s.name}`}>
              {(close) => <ChangeSource source={s} close={close} />}
            </Dialogue>
            <Remove source={s} />
          </>
        )}
      </PageHead>
      <ErrorBox error={error ?? lost} />
      <p>
        <StateBadge state={s.state} /> <span className="quiet">{meaning[s.state]}</span>
      </p>
      {s.problem && s.state !== "asking" && (
        <p className="reason">
          {sentence(s.problem)}
          {s.problem_since && ` (since ${when(s.problem_since)}${s.tries > 1 ? `, ${count(s.tries)} tries` : ""})`}
        </p>
      )}
      {s.state === "asking" && s.run && <Asking source={s} run={s.run} again={() => void act("run")} />}
      {preview && <Preview source={s} />}
      <Facts source={s} />
      <Runs source={s} />
      {(s.run?.skipped ?? 0) > 0 && <Skipped source={s} />}
      <Items source={s} />
    </>
  );
}

/** A listing is suddenly shorter; somebody says whether what is gone is deleted here, too. */
function Asking({ source: s, run, again }: { source: Source; run: SourceRun; again: () => void }) {
  const cache = useQueryClient();
  return (
    <section className="card" aria-label="Much is gone">
      <h2>Much is gone</h2>
      <p>{sentence(s.problem ?? "")}.</p>
      <div className="actions">
        <Dialogue button="Delete what is gone" title="Delete what is gone?" look="danger">
          {(close) => (
            <Confirm
              text="Documents whose items the place does not list any more are hidden at once and purged soon after."
              action="Delete them"
              cancel={close}
              confirm={async () => {
                await post<Source>(`/v1/sources/${s.id}/confirm`, { run: run.id });
                close();
                await cache.invalidateQueries({ queryKey: ["source", s.name] });
              }}
            />
          )}
        </Dialogue>
        <Action onPress={again}>List once more</Action>
      </div>
    </section>
  );
}

function Remove({ source: s }: { source: Source }) {
  const cache = useQueryClient();
  const [, go] = useLocation();
  const [keep, setKeep] = useState(false);
  return (
    <Dialogue button="Remove" title={`Remove ${s.name}?`} look="danger">
      {(close) => (
        <Confirm
          text={keep ? "Its documents stay, and follow the place no more." : `Its ${plural(s.documents, "document")} are deleted with it.`}
          action="Remove it"
          cancel={close}
          confirm={async () => {
            await del(`/v1/sources/${s.id}${keep ? "?keep_documents=true" : ""}`);
            close();
            go("/sources");
            await cache.invalidateQueries({ queryKey: ["sources"] });
          }}
        >
          <Checkbox className="tick" isSelected={keep} onChange={setKeep}>
            <span className="box" aria-hidden="true" />
            Keep its documents
          </Checkbox>
        </Confirm>
      )}
    </Dialogue>
  );
}

function Facts({ source: s }: { source: Source }) {
  const collections = useCollections();
  const collection = collections.data?.find((c) => c.id === s.collection_id)?.name;
  const fact = (name: string, value: ReactNode) => (
    <div key={name}>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
  return (
    <section className="card" aria-label="Settings">
      <dl className="facts">
        {fact("Kind", s.driver)}
        {fact("Collection", collection && <Link href={`/collections/${encodeURIComponent(collection)}`}>{collection}</Link>)}
        {fact("Items", count(s.items))}
        {fact("Documents", count(s.documents))}
        {fact("To do", count(s.pending))}
        {fact("Next run", s.next_at ? when(s.next_at) : "when somebody says so")}
        {fact("Runs", s.every ? `every ${plural(s.every, "minute")}` : "when somebody asks")}
      </dl>
      <dl className="facts">
        {Object.entries(s.settings).map(([name, value]) => fact(name, value))}
        {s.secrets?.map((name) => fact(name, "secret, never shown"))}
        {!!s.include?.length && fact("Include", s.include.join(", "))}
        {!!s.exclude?.length && fact("Exclude", s.exclude.join(", "))}
        {!!s.labels?.length && fact("Labels", s.labels.join(", "))}
        {s.max_bytes > 0 && fact("Largest item", bytesOf(s.max_bytes))}
        {s.max_items > 0 && fact("Most items", count(s.max_items))}
        {fact("May be gone at once", s.max_shorter >= 100 ? "everything" : `less than ${s.max_shorter} %`)}
      </dl>
    </section>
  );
}

function Runs({ source: s }: { source: Source }) {
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
                  {r.problem && <div className="reason">{sentence(r.problem)}</div>}
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

function Skipped({ source: s }: { source: Source }) {
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

/** The items that are followed, looked up when somebody wants to see them. */
function Items({ source: s }: { source: Source }) {
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

/** What of a preview is shown at most. */
const previewed = 100;

/** What a run would find now. The place is asked each time. */
function Preview({ source: s }: { source: Source }) {
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
