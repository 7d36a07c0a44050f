// API keys and the cost of language models: for admins.

import { useInfiniteQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Checkbox, CheckboxGroup, Form, Label } from "react-aria-components";
import { del, get, type Page, post, withQuery } from "./api";
import { Confirm } from "./confirm";
import { type Scope, scopesOf, useSession } from "./session";
import { when } from "./text";
import type { Key, KeyCreated } from "./types";
import { Action, Dialogue, Empty, ErrorBox, Field, Loading, PageHead } from "./ui";
import { UsageOf } from "./usage";

export function KeysPage() {
  return (
    <>
      <PageHead title="API keys">
        <Dialogue button="New key" title="New key" look="primary">
          {(close) => <NewKey close={close} />}
        </Dialogue>
      </PageHead>
      <KeysAt path="/v1/keys" />
    </>
  );
}

/** The keys at a path of the API: those of one's own tenant, or of another for an operator. */
export function KeysAt({ path }: { path: string }) {
  const list = useInfiniteQuery({
    queryKey: ["keys", path],
    queryFn: ({ pageParam, signal }) => get<Page<Key>>(withQuery(path, { limit: 50, cursor: pageParam }), signal),
    initialPageParam: "",
    getNextPageParam: (page) => page.next,
  });
  const keys = list.data?.pages.flatMap((p) => p.items) ?? [];
  return (
    <>
      <ErrorBox error={list.error} retry={() => void list.refetch()} />
      {list.isPending && <Loading />}
      {list.isSuccess && keys.length === 0 && <Empty>There are no keys.</Empty>}
      {keys.length > 0 && (
        <table className="documents">
          <thead>
            <tr>
              <th>Name</th>
              <th>Begins with</th>
              <th>May</th>
              <th>Groups</th>
              <th>From</th>
              <th>Made</th>
              <th>Last used</th>
              <th>Ends</th>
              <th>
                <span className="hidden">Revoke</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {keys.map((k) => (
              <KeyRow key={k.id} apiKey={k} path={path} />
            ))}
          </tbody>
        </table>
      )}
      {list.hasNextPage && (
        <Action isPending={list.isFetchingNextPage} onPress={() => void list.fetchNextPage()}>
          More keys
        </Action>
      )}
    </>
  );
}

function KeyRow({ apiKey: k, path }: { apiKey: Key; path: string }) {
  const cache = useQueryClient();
  const { key_id } = useSession();
  const end = k.revoked_at ? `revoked ${when(k.revoked_at)}` : k.expires_at ? when(k.expires_at) : "";
  return (
    <tr>
      <td className="wide">
        {k.name} {k.id === key_id && <span className="badge">this session's</span>}
      </td>
      <td data-label="Begins with">
        <code>{k.prefix}</code>
      </td>
      <td data-label="May">{scopesOf(k)}</td>
      <td data-label="Groups">{k.groups?.join(", ")}</td>
      <td data-label="From">{k.addresses?.join(", ")}</td>
      <td data-label="Made">{when(k.created_at)}</td>
      <td data-label="Last used">{k.last_used_at ? when(k.last_used_at) : "never"}</td>
      <td data-label="Ends">{end}</td>
      <td>
        {!k.revoked_at && (
          <Dialogue button="Revoke" title={`Revoke ${k.name}?`} look="danger">
            {(close) => (
              <Confirm
                text={
                  k.id === key_id
                    ? "It is the key of this session, which ends with it. A revoked key never works again."
                    : "Programs and sessions that use it stop working within seconds, for good."
                }
                action="Revoke"
                cancel={close}
                confirm={async () => {
                  await del(`${path}/${k.id}`);
                  close();
                  await cache.invalidateQueries({ queryKey: ["keys"] });
                }}
              />
            )}
          </Dialogue>
        )}
      </td>
    </tr>
  );
}

const scopes: { scope: Scope; may: string }[] = [
  { scope: "query", may: "search, ask, read documents" },
  { scope: "ingest", may: "upload, retry, delete, make collections" },
  { scope: "curate", may: "change plans and collections' settings, rebuild" },
  { scope: "admin", may: "all three, and manage keys, sources and webhooks" },
  { scope: "impersonate", may: "ask with the groups of someone else" },
  { scope: "operator", may: "manage tenants; only an operator can give it" },
];

// listed returns the texts between commas; undefined if there are none.
function listed(text: string) {
  const list = text
    .split(",")
    .map((t) => t.trim())
    .filter(Boolean);
  return list.length > 0 ? list : undefined;
}

function NewKey({ close }: { close: () => void }) {
  const { may } = useSession();
  const cache = useQueryClient();
  const [name, setName] = useState("");
  const [chosen, setChosen] = useState<string[]>(["query"]);
  const [groups, setGroups] = useState("");
  const [addresses, setAddresses] = useState("");
  const [made, setMade] = useState<KeyCreated | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const [busy, setBusy] = useState(false);

  const submit = async () => {
    setBusy(true);
    setError(null);
    try {
      setMade(await post<KeyCreated>("/v1/keys", { name, scopes: chosen, groups: listed(groups), addresses: listed(addresses) }));
      await cache.invalidateQueries({ queryKey: ["keys"] });
    } catch (e) {
      setError(e as Error);
    }
    setBusy(false);
  };
  if (made) {
    return (
      <>
        <p>This is the only time that the key is shown:</p>
        <p className="made">
          <code>{made.api_key}</code>
        </p>
        <div className="actions">
          <Action onPress={() => void navigator.clipboard?.writeText(made.api_key)}>Copy</Action>
          <Action look="primary" onPress={close}>
            Done
          </Action>
        </div>
      </>
    );
  }
  return (
    <Form
      onSubmit={(e) => {
        e.preventDefault();
        void submit();
      }}
    >
      <Field label="Name" value={name} onChange={setName} isRequired autoFocus />
      <CheckboxGroup className="field" value={chosen} onChange={setChosen}>
        <Label className="label">It may</Label>
        {scopes.filter((s) => s.scope !== "operator" || may("operator")).map((s) => (
          <Checkbox key={s.scope} value={s.scope} className="tick">
            <span className="box" aria-hidden="true" />
            {s.scope} <span className="quiet">{s.may}</span>
          </Checkbox>
        ))}
      </CheckboxGroup>
      <Field label="Groups" hint="Whose labelled documents it sees, divided by commas." value={groups} onChange={setGroups} />
      <Field label="Addresses" hint="Where it may be used from, as 203.0.113.7 or 10.1.0.0/16; anywhere when empty." value={addresses} onChange={setAddresses} />
      <ErrorBox error={error} />
      <div className="actions">
        <Action onPress={close}>Cancel</Action>
        <Action type="submit" look="primary" isPending={busy} isDisabled={chosen.length === 0}>
          Make it
        </Action>
      </div>
    </Form>
  );
}

export function UsagePage() {
  return (
    <>
      <PageHead title="Use of language models" />
      <UsageOf path="/v1/usage" />
    </>
  );
}
