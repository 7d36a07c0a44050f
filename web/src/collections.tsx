import { useInfiniteQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Form } from "react-aria-components";
import { Link, useLocation } from "wouter";
import { get, type Page, post, withQuery } from "./api";
import { useSession } from "./session";
import { bytesOf, count, plural, when } from "./text";
import type { Collection } from "./types";
import { Action, Dialogue, Empty, ErrorBox, Field, Loading, PageHead } from "./ui";

export function CollectionsPage() {
  const { may } = useSession();
  const list = useInfiniteQuery({
    queryKey: ["collections"],
    queryFn: ({ pageParam, signal }) =>
      get<Page<Collection>>(withQuery("/v1/collections", { limit: 50, cursor: pageParam }), signal),
    initialPageParam: "",
    getNextPageParam: (page) => page.next,
  });
  const items = list.data?.pages.flatMap((p) => p.items) ?? [];
  return (
    <>
      <PageHead title="Collections">{may("ingest") && <NewCollection />}</PageHead>
      <ErrorBox error={list.error} retry={() => void list.refetch()} />
      {list.isPending && <Loading />}
      {list.isSuccess && items.length === 0 && (
        <Empty>
          There are no collections yet. {may("ingest") && "A collection holds documents that are asked about together."}
        </Empty>
      )}
      <ul className="cards">
        {items.map((c) => (
          <CollectionCard key={c.id} collection={c} />
        ))}
      </ul>
      {list.hasNextPage && (
        <Action isPending={list.isFetchingNextPage} onPress={() => void list.fetchNextPage()}>
          More collections
        </Action>
      )}
    </>
  );
}

function CollectionCard({ collection: c }: { collection: Collection }) {
  return (
    <li className="card">
      <h2>
        <Link href={`/collections/${encodeURIComponent(c.name)}`}>{c.name}</Link>
      </h2>
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
          <dt>Encoder</dt>
          <dd>{c.space || "none yet"}</dd>
        </div>
        <div>
          <dt>{c.changed_at ? "Changed" : "Made"}</dt>
          <dd>{when(c.changed_at ?? c.created_at)}</dd>
        </div>
      </dl>
    </li>
  );
}

/** The states of documents, in the order of a document's life. */
export const states = ["received", "queued", "processing", "ready", "failed", "superseded", "cancelled"];

/** Documents by state, as a bar and in words. */
export function Counts({ counts }: { counts: Collection["counts"] }) {
  const some = states.filter((s) => (counts?.[s] ?? 0) > 0);
  const total = some.reduce((sum, s) => sum + (counts?.[s] ?? 0), 0);
  if (total === 0) return <p className="quiet">No documents</p>;
  const share = (s: string) => ({ width: `${(100 * (counts?.[s] ?? 0)) / total}%` });
  return (
    <div className="counts">
      <div className="bar" aria-hidden="true">
        {some.map((s) => (
          <span key={s} className={`share ${s}`} style={share(s)} />
        ))}
      </div>
      <p>
        {plural(total, "document")}: {some.map((s) => `${count(counts?.[s])} ${s}`).join(", ")}
      </p>
    </div>
  );
}

function NewCollection() {
  return (
    <Dialogue button="New collection" title="New collection" look="primary">
      {(close) => <NewCollectionForm close={close} />}
    </Dialogue>
  );
}

function NewCollectionForm({ close }: { close: () => void }) {
  const cache = useQueryClient();
  const [, go] = useLocation();
  const [name, setName] = useState("");
  const [description, setDescription] = useState("");
  const [language, setLanguage] = useState("en");
  const [error, setError] = useState<Error | null>(null);
  const [busy, setBusy] = useState(false);
  const submit = async () => {
    setBusy(true);
    setError(null);
    try {
      const made = await post<Collection>("/v1/collections", { name, description, language });
      await cache.invalidateQueries({ queryKey: ["collections"] });
      close();
      go(`/collections/${encodeURIComponent(made.name)}`);
    } catch (e) {
      setError(e as Error);
      setBusy(false);
    }
  };
  return (
    <Form
      onSubmit={(e) => {
        e.preventDefault();
        void submit();
      }}
    >
      <Field
        label="Name"
        hint="Letters, digits, dots, dashes and underscores."
        value={name}
        onChange={setName}
        isRequired
        autoFocus
      />
      <Field label="Description" value={description} onChange={setDescription} />
      <Field
        label="Language"
        hint="Of its documents, as a BCP 47 tag: en, de, fr…"
        value={language}
        onChange={setLanguage}
      />
      <ErrorBox error={error} />
      <div className="actions">
        <Action onPress={close}>Cancel</Action>
        <Action type="submit" look="primary" isPending={busy}>
          Create
        </Action>
      </div>
    </Form>
  );
}
