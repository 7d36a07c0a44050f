// The users and groups of a source that follows permissions, and the people and keys that they are
// mapped to.

import { useInfiniteQuery, useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useEffect, useState } from "react";
import { Form } from "react-aria-components";
import { Link, useSearchParams } from "wouter";
import { APIError, call, del, get, type Page, withQuery } from "./api";
import { Confirm } from "./confirm";
import { sourcePath } from "./sources";
import { type Subject, SubjectFields, subjectText, useKeys } from "./subject";
import { count, plural } from "./text";
import type { AccessMapping, Key, SourcePrincipal } from "./types";
import { Action, Choice, Dialogue, Empty, ErrorBox, Field, Loading, PageHead } from "./ui";

/** How many are shown at first, and added each time. */
const some = 50;

const apiPath = (source: string) => `/v1/sources/${encodeURIComponent(source)}`;

export function PrincipalsPage({ source }: { source: string }) {
  const [params, setParams] = useSearchParams();
  const [text, setText] = useState("");
  const [most, setMost] = useState(some);
  const keys = useKeys();
  const which = params.get("which") ?? "all";
  const list = useInfiniteQuery({
    queryKey: ["principals", source, which === "mapped"],
    queryFn: ({ pageParam, signal }) =>
      get<Page<SourcePrincipal>>(
        withQuery(`${apiPath(source)}/principals`, { limit: 500, cursor: pageParam, mapped: which === "mapped" ? "true" : "" }),
        signal,
      ),
    initialPageParam: "",
    getNextPageParam: (page) => page.next,
  });
  const wanted = text.trim().toLowerCase();
  const found = (list.data?.pages.flatMap((p) => p.items) ?? []).filter(
    (p) =>
      (which !== "unmapped" || !p.mappings?.length) &&
      [p.id, p.name ?? "", p.email ?? ""].some((t) => t.toLowerCase().includes(wanted)),
  );
  // The API finds mapped principals; other filters, and names, are searched for page by page.
  const { hasNextPage, isFetchingNextPage, isError, fetchNextPage } = list;
  const further = found.length < most && hasNextPage && !isFetchingNextPage && !isError;
  useEffect(() => {
    if (further) void fetchNextPage();
  }, [further, fetchNextPage]);
  const shown = found.slice(0, most);
  return (
    <>
      <PageHead title={`Users and groups of ${source}`} above={<Link href={sourcePath(source)}>{source}</Link>} />
      <p className="quiet">Nobody sees the source's documents before it is said here who people are there. Nothing follows from names or mail.</p>
      <div className="filters">
        <Choice
          label="Show"
          value={which}
          onChange={(to) => {
            setMost(some);
            setParams(to === "all" ? {} : { which: to }, { replace: true });
          }}
          options={[
            { id: "all", text: "all" },
            { id: "unmapped", text: "unmapped", detail: "Who nobody here is." },
            { id: "mapped", text: "mapped", detail: "Who somebody here is." },
          ]}
        />
        <Field label="Id, name or mail contains" value={text} onChange={setText} />
      </div>
      <ErrorBox error={list.error} retry={() => void list.refetch()} />
      {(list.isPending || (shown.length === 0 && hasNextPage && !isError)) && <Loading />}
      {list.isSuccess && shown.length === 0 && !hasNextPage && (
        <Empty>{wanted || which !== "all" ? "No user or group is like that." : "It has listed no users or groups yet. Let it run."}</Empty>
      )}
      {shown.length > 0 && (
        <table className="documents">
          <thead>
            <tr>
              <th>Id</th>
              <th>Kind</th>
              <th>Name</th>
              <th>Mail</th>
              <th className="number">Members</th>
              <th>Is here</th>
              <th>
                <span className="hidden">Map</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {shown.map((p) => (
              <PrincipalRow key={p.id} source={source} principal={p} keys={keys.data} />
            ))}
          </tbody>
        </table>
      )}
      {(found.length > most || (shown.length > 0 && hasNextPage)) && (
        <Action isPending={isFetchingNextPage} onPress={() => setMost(most + some)}>
          More
        </Action>
      )}
    </>
  );
}

const nameOf = (p: SourcePrincipal) => (p.name && p.name !== p.id ? `${p.id} (${p.name})` : p.id);

function PrincipalRow({ source, principal: p, keys }: { source: string; principal: SourcePrincipal; keys: Key[] | undefined }) {
  return (
    <tr>
      <td className="wide">
        <code>{p.id}</code>
      </td>
      <td data-label="Kind">{p.group ? "group" : "user"}</td>
      <td data-label="Name">{p.name}</td>
      <td data-label="Mail">{p.email}</td>
      <td data-label="Members" className="number">
        {p.group ? count(p.members) : ""}
      </td>
      <td data-label="Is here" className="wide">
        {!p.mappings?.length && <span className="quiet">nobody</span>}
        <ul className="mappings">
          {p.mappings?.map((m) => (
            <li key={`${m.kind} ${m.value}`}>
              {subjectText(m, keys)} <Unmap source={source} principal={p} mapping={m} who={subjectText(m, keys)} />
            </li>
          ))}
        </ul>
      </td>
      <td>
        <Dialogue button="Map" title={`Who is ${nameOf(p)}?`}>
          {(close) => <Map source={source} principal={p} close={close} />}
        </Dialogue>
      </td>
    </tr>
  );
}

function Unmap({ source, principal: p, mapping: m, who }: { source: string; principal: SourcePrincipal; mapping: AccessMapping; who: string }) {
  const cache = useQueryClient();
  return (
    <Dialogue button="Unmap" title={`Unmap ${who}?`}>
      {(close) => (
        <Confirm
          text={`They are not ${nameOf(p)} any more. Within a second they see nothing by it.`}
          action="Unmap"
          cancel={close}
          confirm={async () => {
            await del(withQuery(`${apiPath(source)}/mappings`, { principal: p.id, kind: m.kind, value: m.value }));
            close();
            await cache.invalidateQueries({ queryKey: ["principals", source] });
          }}
        />
      )}
    </Dialogue>
  );
}

/** Maps a principal to a subject. The subject sees more then, so the form asks for confirmation. */
function Map({ source, principal: p, close }: { source: string; principal: SourcePrincipal; close: () => void }) {
  const cache = useQueryClient();
  const keys = useKeys();
  const [who, setWho] = useState<Subject>({ kind: "person", value: "" });
  const [asking, setAsking] = useState(false);
  const [error, setError] = useState<Error | null>(null);
  const wrong = error instanceof APIError ? error.fields.find((f) => /^(body\.)?value$/.test(f.location ?? ""))?.message : undefined;
  if (asking) {
    let sees: ReactNode = `Within a second they see what ${nameOf(p)} sees there, and its text.`;
    if (p.group) sees = `${sees} It is a group, with ${plural(p.members, "member")} there.`;
    return (
      <Confirm
        text={`${subjectText(who, keys.data)} is ${nameOf(p)} in ${source}.`}
        action="Map them"
        cancel={() => setAsking(false)}
        confirm={async () => {
          try {
            await call<AccessMapping>("PUT", `${apiPath(source)}/mappings`, { principal: p.id, kind: who.kind, value: who.value.trim() });
          } catch (e) {
            setError(e as Error);
            setAsking(false);
            return;
          }
          close();
          await cache.invalidateQueries({ queryKey: ["principals", source] });
        }}
      >
        <p>{sees}</p>
      </Confirm>
    );
  }
  return (
    <Form
      validationBehavior="aria"
      onSubmit={(e) => {
        e.preventDefault();
        if (who.value.trim()) setAsking(true);
      }}
    >
      <SubjectFields subject={who} change={setWho} error={wrong} />
      <ErrorBox error={error} />
      <div className="actions">
        <Action onPress={close}>Cancel</Action>
        <Action type="submit" look="primary" isDisabled={!who.value.trim()}>
          Map
        </Action>
      </div>
    </Form>
  );
}
