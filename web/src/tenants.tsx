// All tenants, for operators: their limits and their usage.

import { useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Form } from "react-aria-components";
import { KeysAt } from "./access";
import { call, get, type Page, post, withQuery } from "./api";
import { bytesOf, count, when } from "./text";
import type { LLMUsage as Usage, Storage, Tenant } from "./types";
import { Action, Dialogue, Empty, ErrorBox, Field, Loading, PageHead } from "./ui";
import { Budget, UsageOf } from "./usage";

export function TenantsPage() {
  const list = useInfiniteQuery({
    queryKey: ["tenants"],
    queryFn: ({ pageParam, signal }) => get<Page<Tenant>>(withQuery("/v1/tenants", { limit: 50, cursor: pageParam }), signal),
    initialPageParam: "",
    getNextPageParam: (page) => page.next,
  });
  const tenants = list.data?.pages.flatMap((p) => p.items) ?? [];
  return (
    <>
      <PageHead title="Tenants">
        <Dialogue button="New tenant" title="New tenant" look="primary">
          {(close) => <NewTenant close={close} />}
        </Dialogue>
      </PageHead>
      <ErrorBox error={list.error} retry={() => void list.refetch()} />
      {list.isPending && <Loading />}
      {list.isSuccess && tenants.length === 0 && <Empty>There are no tenants.</Empty>}
      {tenants.map((t) => (
        <TenantCard key={t.id} tenant={t} />
      ))}
      {list.hasNextPage && (
        <Action isPending={list.isFetchingNextPage} onPress={() => void list.fetchNextPage()}>
          More tenants
        </Action>
      )}
    </>
  );
}

function TenantCard({ tenant: t }: { tenant: Tenant }) {
  const [open, setOpen] = useState<"usage" | "keys" | "">("");
  const toggle = (what: "usage" | "keys") => setOpen(open === what ? "" : what);
  return (
    <section className="card" aria-label={t.name}>
      <div className="row">
        <h2>{t.name}</h2>
        <div className="actions">
          <Action aria-expanded={open === "usage"} onPress={() => toggle("usage")}>
            Usage
          </Action>
          <Action aria-expanded={open === "keys"} onPress={() => toggle("keys")}>
            Keys
          </Action>
          <Dialogue button="Quotas" title={`Quotas of ${t.name}`}>
            {(close) => <Quotas tenant={t} close={close} />}
          </Dialogue>
          <Dialogue button="Budgets" title={`Budgets of ${t.name}`}>
            {(close) => <Budgets tenant={t} close={close} />}
          </Dialogue>
        </div>
      </div>
      <p className="quiet">
        {t.max_documents === undefined ? "Any number of documents" : `At most ${count(t.max_documents)} documents`},{" "}
        {t.max_bytes === undefined ? "of any size" : `of ${bytesOf(t.max_bytes)}`}. Made {when(t.created_at)}. <code>{t.id}</code>
      </p>
      {open === "usage" && (
        <>
          <StoredBy tenant={t} />
          <UsageOf path={`/v1/tenants/${t.id}/usage`} />
        </>
      )}
      {open === "keys" && <KeysAt path={`/v1/tenants/${t.id}/keys`} />}
    </section>
  );
}

/** What a tenant has stored, with its quotas. */
function StoredBy({ tenant: t }: { tenant: Tenant }) {
  const stored = useQuery({
    queryKey: ["tenants", t.id, "storage"],
    queryFn: ({ signal }) => get<Storage>(`/v1/tenants/${t.id}/storage`, signal),
  });
  const s = stored.data;
  return (
    <section className="card" aria-label="Stored">
      <h2>Stored</h2>
      <ErrorBox error={stored.error} retry={() => void stored.refetch()} />
      {stored.isPending && <Loading />}
      {s && (
        <>
          <Budget name="Documents" used={s.documents} limit={s.max_documents} show={count} />
          <Budget name="Files" used={s.bytes} limit={s.max_bytes} show={bytesOf} />
        </>
      )}
    </section>
  );
}

/** A limit as typed; empty is no limit. */
function limitOf(name: string, text: string, whole: boolean): number | undefined {
  const plain = text.replace(/[ ,_]/g, "");
  if (plain === "") return undefined;
  const n = Number(plain);
  if (!Number.isFinite(n) || n < 0 || (whole && !Number.isInteger(n))) {
    throw new Error(`${name}: ${whole ? "a whole number" : "a number"} of 0 or more, or nothing for no limit`);
  }
  return n;
}

interface Setting {
  field: string;
  label: string;
  whole: boolean;
}

const quotas: Setting[] = [
  { field: "max_documents", label: "Documents", whole: true },
  { field: "max_bytes", label: "Bytes", whole: true },
];

const budgets: Setting[] = [
  { field: "tokens_per_day", label: "Tokens a day", whole: true },
  { field: "tokens_per_month", label: "Tokens a month", whole: true },
  { field: "dollars_per_day", label: "US dollars a day", whole: false },
  { field: "dollars_per_month", label: "US dollars a month", whole: false },
  { field: "calls_per_minute", label: "Calls a minute", whole: true },
  { field: "calls_at_once", label: "Calls at once", whole: true },
];

type Values = Record<string, string>;

function textsOf(settings: Setting[], from: object): Values {
  return Object.fromEntries(
    settings.map((s) => {
      const value = (from as Record<string, unknown>)[s.field];
      return [s.field, value === undefined || value === null ? "" : String(value)];
    }),
  );
}

function numbersOf(settings: Setting[], values: Values): Record<string, number | undefined> {
  return Object.fromEntries(settings.map((s) => [s.field, limitOf(s.label, values[s.field] ?? "", s.whole)]));
}

/** A form of limits. save throws an error if a limit is wrong. */
function Limits({
  settings,
  at,
  save,
  close,
}: {
  settings: Setting[];
  at: object;
  save: (limits: Record<string, number | undefined>) => Promise<void>;
  close: () => void;
}) {
  const [values, setValues] = useState(() => textsOf(settings, at));
  const [error, setError] = useState<Error | null>(null);
  const [busy, setBusy] = useState(false);
  const submit = async () => {
    setBusy(true);
    setError(null);
    try {
      await save(numbersOf(settings, values));
      close();
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
      <p className="quiet">An empty field is no limit.</p>
      {settings.map((s, i) => (
        <Field
          key={s.field}
          label={s.label}
          value={values[s.field] ?? ""}
          onChange={(text) => setValues({ ...values, [s.field]: text })}
          autoFocus={i === 0}
        />
      ))}
      <ErrorBox error={error} />
      <div className="actions">
        <Action onPress={close}>Cancel</Action>
        <Action type="submit" look="primary" isPending={busy}>
          Save
        </Action>
      </div>
    </Form>
  );
}

function Quotas({ tenant: t, close }: { tenant: Tenant; close: () => void }) {
  const cache = useQueryClient();
  return (
    <Limits
      settings={quotas}
      at={t}
      close={close}
      save={async (limits) => {
        await call("PATCH", `/v1/tenants/${t.id}`, limits);
        await cache.invalidateQueries({ queryKey: ["tenants"] });
      }}
    />
  );
}

function Budgets({ tenant: t, close }: { tenant: Tenant; close: () => void }) {
  const cache = useQueryClient();
  const path = `/v1/tenants/${t.id}/usage`;
  const usage = useQuery({ queryKey: ["usage", path], queryFn: ({ signal }) => get<Usage>(path, signal) });
  if (!usage.data) return usage.error ? <ErrorBox error={usage.error} /> : <Loading />;
  return (
    <Limits
      settings={budgets}
      at={usage.data.limits}
      close={close}
      save={async (limits) => {
        await call("PUT", `/v1/tenants/${t.id}/limits`, limits);
        await cache.invalidateQueries({ queryKey: ["usage", path] });
      }}
    />
  );
}

function NewTenant({ close }: { close: () => void }) {
  const cache = useQueryClient();
  const [name, setName] = useState("");
  const [values, setValues] = useState<Values>({});
  const [made, setMade] = useState<{ api_key: string } | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const [busy, setBusy] = useState(false);
  const submit = async () => {
    setBusy(true);
    setError(null);
    try {
      setMade(await post<{ api_key: string }>("/v1/tenants", { name: name.trim(), ...numbersOf(quotas, values) }));
      await cache.invalidateQueries({ queryKey: ["tenants"] });
    } catch (e) {
      setError(e as Error);
    }
    setBusy(false);
  };
  if (made) {
    return (
      <>
        <p>The tenant's first key, an admin's. This is the only time that it is shown:</p>
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
      <Field label="Name" hint="Small letters, digits, dots, dashes and underscores." value={name} onChange={setName} isRequired autoFocus />
      {quotas.map((s) => (
        <Field
          key={s.field}
          label={`${s.label} at most`}
          hint="Empty: no limit."
          value={values[s.field] ?? ""}
          onChange={(text) => setValues({ ...values, [s.field]: text })}
        />
      ))}
      <ErrorBox error={error} />
      <div className="actions">
        <Action onPress={close}>Cancel</Action>
        <Action type="submit" look="primary" isPending={busy}>
          Make it
        </Action>
      </div>
    </Form>
  );
}
