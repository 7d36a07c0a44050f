// One source: its state, its settings, and actions.

import { useQuery, useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { Checkbox } from "react-aria-components";
import { Link, Redirect, useLocation } from "wouter";
import { APIError, del, get, post } from "./api";
import { Confirm } from "./confirm";
import { useCollections } from "./question";
import { ChangeSource } from "./sourceform";
import { Items, Preview, Runs, Skipped } from "./sourceruns";
import { againAfter, follows, sourcePath } from "./sources";
import { bytesOf, count, plural, when } from "./text";
import type { Source, SourceRun } from "./types";
import { Action, Dialogue, ErrorBox, Loading, PageHead, sentence, StateBadge } from "./ui";

/** The meaning of a state. */
const meaning: Record<Source["state"], string> = {
  waiting: "It waits for its time.",
  running: "Items are listed, and new ones are fetched.",
  retrying: "The source's server does not answer, and is tried again.",
  limited: "The source's server asked for fewer requests; the source waits as long as it asked.",
  asking: "Much is gone at once; nothing was deleted.",
  refused: "The source's server refuses the credentials: change the settings.",
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
  // A source that is being removed disappears when all of its documents are deleted.
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
  // Links with its id are redirected to its name.
  if (s.name !== name) return <Redirect to={sourcePath(s.name)} replace />;
  return <Shown source={s} above={above} lost={source.error} />;
}

/** A source as it was last loaded; lost is the error of the last attempt to load it again. */
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
          {s.problem}
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

/** A listing is suddenly much shorter, and the user decides whether the missing items are deleted here, too. */
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
              text="Documents whose items the source does not list any more are hidden at once and purged soon after."
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
          text={keep ? "Its documents stay, and are not updated any more." : `Its ${plural(s.documents, "document")} are deleted with it.`}
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
