// Why somebody may or may not see a document, in the words of `sluice access explain`: for admins.

import { useState } from "react";
import { Form } from "react-aria-components";
import { Link } from "wouter";
import { APIError, get, withQuery } from "./api";
import { sourcePath } from "./sources";
import { type Subject, SubjectFields, subjectText, useKeys } from "./subject";
import type { AccessExplanation, AccessRule } from "./types";
import { Action, ErrorBox } from "./ui";

export function ExplainAccess({ document }: { document: string }) {
  const [open, setOpen] = useState(false);
  return (
    <details open={open} onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>Who may see it?</summary>
      {open && <Ask document={document} />}
    </details>
  );
}

function Ask({ document }: { document: string }) {
  const keys = useKeys();
  const [who, setWho] = useState<Subject>({ kind: "person", value: "" });
  const [found, setFound] = useState<{ of: string; explained: AccessExplanation } | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const [busy, setBusy] = useState(false);
  const explain = async () => {
    setBusy(true);
    setError(null);
    setFound(null);
    try {
      const value = who.value.trim();
      const explained = await get<AccessExplanation>(withQuery("/v1/access/explain", { document, [who.kind]: value }));
      setFound({ of: subjectText({ ...who, value }, keys.data), explained });
    } catch (e) {
      setError(e as Error);
    }
    setBusy(false);
  };
  const wrong = error instanceof APIError ? error.fields.find((f) => f.location?.replace(/^query\./, "") === who.kind)?.message : undefined;
  return (
    <section className="card" aria-label="Who may see it">
      <Form
        className="filters"
        validationBehavior="aria"
        onSubmit={(e) => {
          e.preventDefault();
          if (who.value.trim()) void explain();
        }}
      >
        <SubjectFields
          subject={who}
          change={(to) => {
            setWho(to);
            setError(null);
          }}
          error={wrong}
        />
        <Action type="submit" isPending={busy} isDisabled={!who.value.trim()}>
          Explain
        </Action>
      </Form>
      <ErrorBox error={error} />
      {found && <Explained of={found.of} explained={found.explained} />}
    </section>
  );
}

const nameOf = (id: string, name: string | undefined) => (name && name !== id ? `${id} (${name})` : id);

function Explained({ of, explained: e }: { of: string; explained: AccessExplanation }) {
  const decides = (r: AccessRule) =>
    e.decided && r.list === e.decided.list && r.level === e.decided.level && r.principal === e.decided.principal && r.deny === e.decided.deny;
  return (
    <div role="status">
      <p className="quiet">{of}</p>
      <p>
        <b>{e.allowed ? "yes" : "no"}</b>: {e.reason}
      </p>
      <ul>
        {e.holds?.map((h) => (
          <li key={h.principal}>
            they are {nameOf(h.principal, h.name)}, by {h.through?.join(" > ")}
          </li>
        ))}
        {e.entries?.map((r) => (
          <li key={`${r.list} ${r.level} ${r.deny} ${r.principal}`}>
            list {r.list + 1}, level {r.level + 1} {r.deny ? "keeps out" : "lets in"} {nameOf(r.principal, r.name)}
            {!r.known && ", which the source does not have"} {decides(r) && <span className="badge">decides</span>}
          </li>
        ))}
      </ul>
      {e.source && (
        <p className="quiet">
          By the permissions of <Link href={sourcePath(e.source)}>its source</Link>, where it is {e.item}.
        </p>
      )}
    </div>
  );
}
