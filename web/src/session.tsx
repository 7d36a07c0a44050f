import { useQuery, useQueryClient } from "@tanstack/react-query";
import { createContext, type ReactNode, useContext, useEffect, useState } from "react";
import { Form, Input, Label, TextField } from "react-aria-components";
import { APIError, del, get, post, whenSignedOut } from "./api";
import type { Identity, NewKey, SignInWays } from "./types";
import { Action, ErrorBox, Loading } from "./ui";
import { forgetAll } from "./uploads";

/** The rights of a key. */
export type Scope = NonNullable<NewKey["scopes"]>[number];

interface Session extends Identity {
  /** Whether the key has a scope in the tenant, or in the collection with an id. What it may not do is not shown. */
  may: (scope: Scope, collection?: string) => boolean;
  /** Whether it has the scope in the tenant or in any collection. */
  maySomewhere: (scope: Scope) => boolean;
  signOut: () => Promise<void>;
}

/** The scopes of a key or a person in words. */
export const scopesOf = (of: Pick<Identity, "scopes" | "collections">) =>
  [of.scopes?.join(", "), ...(of.collections ?? []).map((c) => `${c.scopes?.join(", ")} in ${c.name}`)]
    .filter(Boolean)
    .join("; ");

const Context = createContext<Session | null>(null);

export function useSession(): Session {
  const session = useContext(Context);
  if (!session) throw new Error("outside of a session");
  return session;
}

/** Shows its children to people who are signed in, and the sign-in page to others. */
export function SignedIn({ children }: { children: ReactNode }) {
  const cache = useQueryClient();
  const [identity, setIdentity] = useState<Identity | null | undefined>();
  const [error, setError] = useState<Error | null>(null);

  useEffect(() => {
    const leave = new AbortController();
    whenSignedOut(() => {
      forgetAll();
      cache.clear();
      setIdentity(null);
    });
    get<Identity>("/v1/whoami", leave.signal)
      .then(setIdentity)
      .catch((e: Error) => {
        if (leave.signal.aborted) return;
        if (!(e instanceof APIError) || e.status !== 401) setError(e);
        setIdentity(null);
      });
    return () => leave.abort();
  }, [cache]);

  if (identity === undefined) return <Loading />;
  if (identity === null) {
    const enter = (who: Identity) => {
      cache.clear();
      setError(null);
      setIdentity(who);
    };
    return <SignIn failure={error} onSignedIn={enter} />;
  }
  const scopes = identity.scopes ?? [];
  const collections = identity.collections ?? [];
  const inTenant = (scope: Scope) =>
    scopes.includes(scope) ||
    (scopes.includes("admin") && (scope === "curate" || scope === "ingest" || scope === "query"));
  const session: Session = {
    ...identity,
    may: (scope, collection) =>
      inTenant(scope) || collections.some((c) => c.id === collection && c.scopes?.includes(scope)),
    maySomewhere: (scope) => inTenant(scope) || collections.some((c) => c.scopes?.includes(scope)),
    signOut: async () => {
      await del("/v1/session").catch((e) => {
        if (!(e instanceof APIError) || e.status !== 401) throw e;
      });
      forgetAll();
      cache.clear();
      setIdentity(null);
    },
  };
  return <Context value={session}>{children}</Context>;
}

function SignIn({ failure, onSignedIn }: { failure: Error | null; onSignedIn: (who: Identity) => void }) {
  const [key, setKey] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<Error | null>(failure);
  const ways = useQuery({
    queryKey: ["sign-in-ways"],
    queryFn: ({ signal }) => get<SignInWays>("/v1/session/ways", signal),
  });

  useEffect(() => {
    document.title = "Sign in · Sluice";
  }, []);

  const submit = async () => {
    setBusy(true);
    setError(null);
    try {
      onSignedIn(await post<Identity>("/v1/session", { key: key.trim() }));
    } catch (e) {
      setError(e as Error);
      setBusy(false);
    }
  };
  return (
    <main className="sign-in">
      <img src="/icon.svg" alt="" width="48" height="48" />
      <h1>Sluice</h1>
      <Form
        onSubmit={(e) => {
          e.preventDefault();
          void submit();
        }}
      >
        <TextField value={key} onChange={setKey} isRequired type="password" autoComplete="off" name="key">
          <Label>API key</Label>
          <Input placeholder="slu_…" />
        </TextField>
        <ErrorBox error={error} />
        <Action type="submit" look="primary" isPending={busy}>
          Sign in
        </Action>
      </Form>
      {ways.data?.oidc && (
        <p>
          <a href={ways.data.oidc.path}>Sign in with {ways.data.oidc.name}</a>
        </p>
      )}
      <p className="quiet">
        <code>sluice up</code> prints a key when it starts; <code>sluice keys</code> makes others. The{" "}
        <a href="/docs">documentation</a> has the rest.
      </p>
    </main>
  );
}
