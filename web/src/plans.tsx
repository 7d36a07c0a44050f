// Retrieval plans: those of the server, and the tenant's own, which can be edited here.

import { useQuery, useQueryClient } from "@tanstack/react-query";
import { type ReactNode, type UIEvent, useEffect, useId, useRef, useState } from "react";
import { Form, Label, TextArea, TextField } from "react-aria-components";
import { Link, useLocation, useSearchParams } from "wouter";
import { call, del, get, post } from "./api";
import { Confirm } from "./confirm";
import { useCollections, usePlans } from "./question";
import { Found } from "./search";
import { useSession } from "./session";
import { plural, when } from "./text";
import type { Plan, SearchResult } from "./types";
import { Action, Choice, Dialogue, Empty, ErrorBox, Loading, PageHead } from "./ui";

const blank = `name: my-plan
description: what it is for
stages:
  - hybrid:
      unit: passage
      k: 100
      of:
        - lexical: {unit: passage}
        - dense: {unit: passage}
  - limit: {k: 10}
`;

export function PlansPage() {
  const [params] = useSearchParams();
  const from = params.get("plan");
  if (from !== null) return <PlanPage key={from} name={from} />;
  return <PlanList />;
}

const planPath = (name: string) => `/plans?plan=${encodeURIComponent(name)}`;

function PlanList() {
  const { may } = useSession();
  const plans = usePlans();
  return (
    <>
      <PageHead title="Plans">
        <Link className="action primary" href={planPath("")}>
          New plan
        </Link>
      </PageHead>
      <ErrorBox error={plans.error} retry={() => void plans.refetch()} />
      {plans.isPending && <Loading />}
      <ul className="cards">
        {plans.data?.map((p) => (
          <li className="card" key={`${p.name}.${p.own ?? false}`}>
            <h2>
              <Link href={planPath(p.name)}>{p.name}</Link>
            </h2>
            <p className="quiet">
              {p.own ? `your own, changed ${when(p.updated_at)}` : "the server's"}
              {p.default && ", for questions that name no plan"}
            </p>
            {p.description && <p>{p.description}</p>}
            {p.problem && <p className="reason">{p.problem}</p>}
            <p>
              <StageNames plan={p} />
            </p>
            {p.own && may("curate") && <DeletePlan name={p.name} />}
          </li>
        ))}
      </ul>
    </>
  );
}

const StageNames = ({ plan }: { plan: Plan }) => <code>{plan.stages?.map((s) => s.stage).join(" → ")}</code>;

function DeletePlan({ name }: { name: string }) {
  const cache = useQueryClient();
  const [, go] = useLocation();
  return (
    <Dialogue button="Delete" look="danger" title={`Delete the plan ${name}?`}>
      {(close) => (
        <Confirm
          text="Searches and questions that name it are refused from then on. Questions already asked with it stay."
          action="Delete it"
          cancel={close}
          confirm={async () => {
            await del(`/v1/plans/${encodeURIComponent(name)}`);
            await cache.invalidateQueries({ queryKey: ["plans"] });
            close();
            go("/plans");
          }}
        />
      )}
    </Dialogue>
  );
}

/** The editor of a plan; "" is a new one. */
function PlanPage({ name }: { name: string }) {
  const plan = useQuery({
    queryKey: ["plan", name],
    queryFn: ({ signal }) => get<Plan>(`/v1/plans/${encodeURIComponent(name)}`, signal),
    enabled: name !== "",
    // Do not replace text that is being edited.
    staleTime: Number.POSITIVE_INFINITY,
  });
  const above = <Link href="/plans">Plans</Link>;
  if (name === "") return <Editor above={above} start={blank} />;
  if (!plan.data) {
    return (
      <>
        <PageHead title={name} above={above} />
        <ErrorBox error={plan.error} retry={() => void plan.refetch()} />
        {plan.isPending && <Loading />}
      </>
    );
  }
  return <Editor above={above} start={plan.data.text ?? ""} plan={plan.data} />;
}

/** The server's check of a plan's text. */
interface Checked {
  of: string;
  plan?: Plan;
  error?: Error;
}

const checkAfter = 300;

/** Checks a text at the server, shortly after it was typed. */
function useCheck(text: string): Checked | null {
  const [checked, setChecked] = useState<Checked | null>(null);
  useEffect(() => {
    const leave = new AbortController();
    const wait = setTimeout(() => {
      call<Plan>("POST", "/v1/plans/check", { plan: text }, leave.signal)
        .then((plan) => setChecked({ of: text, plan }))
        .catch((error: Error) => {
          if (!leave.signal.aborted) setChecked({ of: text, error });
        });
    }, checkAfter);
    return () => {
      clearTimeout(wait);
      leave.abort();
    };
  }, [text]);
  return checked;
}

/** The line of an error, from 1, which the server names. */
const lineOf = (error: Error | undefined) => Number(/\bline (\d+)/.exec(error?.message ?? "")?.[1] ?? 0);

function Editor({ above, start, plan }: { above: ReactNode; start: string; plan?: Plan }) {
  const { may } = useSession();
  const cache = useQueryClient();
  const [, go] = useLocation();
  const [text, setText] = useState(start);
  const [refused, setRefused] = useState<Error | null>(null);
  const [saved, setSaved] = useState("");
  const [busy, setBusy] = useState(false);
  const checked = useCheck(text);
  const current = checked?.of === text ? checked : null;

  const save = async (name: string) => {
    setBusy(true);
    setRefused(null);
    try {
      const kept = await call<Plan>("PUT", `/v1/plans/${encodeURIComponent(name)}`, { plan: text });
      cache.setQueryData(["plan", name], kept);
      await cache.invalidateQueries({ queryKey: ["plans"] });
      setSaved(text);
      if (name !== plan?.name) go(planPath(name), { replace: true });
    } catch (e) {
      setRefused(e as Error);
    } finally {
      setBusy(false);
    }
  };
  const changed = text !== start && text !== saved;
  const name = current?.plan?.name;
  return (
    <>
      <PageHead title={plan?.name ?? "New plan"} above={above}>
        {may("curate") && (
          <Action look="primary" isPending={busy} isDisabled={!name} onPress={() => name && void save(name)}>
            {name && name !== plan?.name ? `Save as ${name}` : "Save"}
          </Action>
        )}
        {plan?.own && may("curate") && <DeletePlan name={plan.name} />}
      </PageHead>
      <p className="quiet" role="status">
        {saved === text && saved !== ""
          ? "Saved."
          : plan && !plan.own
            ? "A plan of the server's. Change it and try it below; to keep it, give it another name."
            : changed
              ? "Not saved."
              : "Searches, questions and jobs may name it."}
      </p>
      {plan?.problem && <p className="reason">{plan.problem}</p>}
      <ErrorBox error={refused} />
      <Code text={text} change={setText} checked={checked} />
      {current?.plan && <Stages plan={current.plan} />}
      <Trial text={text} works={current?.plan !== undefined} />
    </>
  );
}

/** A text with line numbers and its errors. */
function Code({ text, change, checked }: { text: string; change: (text: string) => void; checked: Checked | null }) {
  const id = useId();
  const numbers = useRef<HTMLDivElement>(null);
  const lines = text.split("\n").length;
  const wrong = lineOf(checked?.error);
  return (
    <div className="code-field">
      <label htmlFor={`${id}text`}>YAML</label>
      <div className={checked?.error ? "code-editor wrong" : "code-editor"}>
        <div className="numbers" aria-hidden="true" ref={numbers}>
          {Array.from({ length: lines }, (_, i) => (
            <span key={i} className={i + 1 === wrong ? "wrong" : undefined}>
              {i + 1}
            </span>
          ))}
        </div>
        <textarea
          id={`${id}text`}
          value={text}
          onChange={(e) => change(e.target.value)}
          onScroll={(e: UIEvent<HTMLTextAreaElement>) => {
            if (numbers.current) numbers.current.scrollTop = e.currentTarget.scrollTop;
          }}
          rows={Math.min(Math.max(lines + 1, 12), 32)}
          wrap="off"
          spellCheck={false}
          autoCapitalize="off"
          autoComplete="off"
          maxLength={65536}
          aria-invalid={checked?.error !== undefined}
          aria-describedby={`${id}said`}
        />
      </div>
      <p id={`${id}said`} role="status" className={checked?.error ? "reason" : "quiet"}>
        {!checked ? "Reading it…" : (checked.error?.message ?? "It can be run.")}
      </p>
    </div>
  );
}

function Stages({ plan }: { plan: Plan }) {
  return (
    <details>
      <summary>{plural(plan.stages?.length ?? 0, "stage")}, with all their settings</summary>
      <ol className="stages">
        {plan.stages?.map((s, i) => (
          <li key={i}>
            <b>{s.stage}</b> <span className="quiet">gives {s.unit}s</span>
            {s.parameters && <pre className="code">{JSON.stringify(s.parameters, null, 1)}</pre>}
          </li>
        ))}
      </ol>
    </details>
  );
}

/** Runs the current text on a question. */
function Trial({ text, works }: { text: string; works: boolean }) {
  const [params, setParams] = useSearchParams();
  const collections = useCollections();
  const [question, setQuestion] = useState(params.get("q") ?? "");
  const [found, setFound] = useState<SearchResult | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const [busy, setBusy] = useState(false);
  const put = (name: string, value: string) =>
    setParams(
      (old) => {
        old.set(name, value);
        return old;
      },
      { replace: true },
    );
  const collection = params.get("collection") ?? collections.data?.[0]?.name ?? "";
  const ready = works && question.trim() !== "" && collection !== "" && !busy;
  const run = async () => {
    if (!ready) return;
    put("q", question.trim());
    setBusy(true);
    setError(null);
    try {
      setFound(
        await post<SearchResult>("/v1/search", { collection, query: question.trim(), plan_text: text, explain: true }),
      );
    } catch (e) {
      setFound(null);
      setError(e as Error);
    } finally {
      setBusy(false);
    }
  };
  return (
    <section aria-label="Try it">
      <h2>Try it</h2>
      {collections.data?.length === 0 ? (
        <Empty>There is no collection to try it on yet.</Empty>
      ) : (
        <Form
          className="question"
          onSubmit={(e) => {
            e.preventDefault();
            void run();
          }}
        >
          <TextField className="field" value={question} onChange={setQuestion}>
            <Label>Question</Label>
            <TextArea
              rows={2}
              maxLength={4000}
              onKeyDown={(e) => {
                if (e.key === "Enter" && !e.shiftKey) {
                  e.preventDefault();
                  void run();
                }
              }}
            />
          </TextField>
          <div className="filters">
            <Choice
              label="Collection"
              value={collection}
              onChange={(v) => put("collection", v)}
              options={(collections.data ?? []).map((c) => ({ id: c.name, text: c.name, detail: c.description }))}
            />
            <Action type="submit" look="primary" isDisabled={!ready} isPending={busy}>
              Run it
            </Action>
          </div>
        </Form>
      )}
      <ErrorBox error={error ?? collections.error} />
      {found && <Found found={found} />}
    </section>
  );
}
