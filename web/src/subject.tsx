// A subject of access: a person of the identity provider, an API key, a group, or a name in
// X-Sluice-Person.

import { useQuery } from "@tanstack/react-query";
import { all } from "./api";
import type { AccessMapping, Key } from "./types";
import { Choice, ErrorBox, Field } from "./ui";

export interface Subject {
  kind: AccessMapping["kind"];
  value: string;
}

const kinds: { id: Subject["kind"]; text: string; detail: string }[] = [
  { id: "person", text: "person", detail: "Of the identity provider." },
  { id: "key", text: "key", detail: "An API key, or a person's row among them." },
  { id: "group", text: "group", detail: "Of keys and people." },
  { id: "asker", text: "asker", detail: "Whom X-Sluice-Person names." },
];

/** The keys of the tenant, including those of people who signed in. */
export function useKeys() {
  return useQuery({ queryKey: ["keys", "all"], queryFn: ({ signal }) => all<Key>("/v1/keys", 2000, signal) });
}

/** A subject for display: kind and value, and the name of a key. */
export function subjectText(s: Subject, keys: Key[] | undefined): string {
  const name = keys?.find((k) => (s.kind === "key" ? k.id === s.value : s.kind === "person" && k.subject === s.value))?.name;
  return `${s.kind} ${name && name !== s.value ? `${name} (${s.value})` : s.value}`;
}

/** Inputs for a subject, depending on its kind. */
export function SubjectFields({ subject: s, change, error }: { subject: Subject; change: (s: Subject) => void; error?: string }) {
  const keys = useKeys();
  const value = (v: string) => change({ ...s, value: v });
  const living = keys.data?.filter((k) => !k.revoked_at) ?? [];
  return (
    <>
      <Choice label="Who" value={s.kind} onChange={(kind) => change({ kind: kind as Subject["kind"], value: "" })} options={kinds} />
      {s.kind === "person" && (
        <Field
          label="Person, as ISSUER|SUB"
          placeholder="https://login.example|SUB"
          suggestions={living.flatMap((k) => (k.subject ? [{ value: k.subject, text: k.name }] : []))}
          error={error}
          value={s.value}
          onChange={value}
        />
      )}
      {s.kind === "key" && (
        <div>
          <Choice
            label="Key"
            value={s.value}
            onChange={value}
            options={living.map((k) => ({ id: k.id, text: k.name, detail: k.kind === "person" ? "a person" : `begins with ${k.prefix}` }))}
          />
          {error !== undefined && <p className="wrong">{error}</p>}
          <ErrorBox error={keys.error} retry={() => void keys.refetch()} />
        </div>
      )}
      {s.kind === "group" && <Field label="Group" error={error} value={s.value} onChange={value} />}
      {s.kind === "asker" && <Field label="Asker, as X-Sluice-Person names them" error={error} value={s.value} onChange={value} />}
    </>
  );
}
