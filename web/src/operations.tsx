// What is running: in one's own tenant, and for operators in all.

import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { Link } from "wouter";
import { APIError, get, stream } from "./api";
import { Bars, TraceLink } from "./charts";
import type { Activity, ChangeEvent, Installation, Operations, SlowQuery } from "./types";
import { Queues, Services, TaskQueues } from "./servers";
import { useSession } from "./session";
import { bytesOf, count, millis, when } from "./text";
import { Choice, Empty, ErrorBox, Loading, PageHead } from "./ui";

const every = 5000;

export function OperationsPage() {
  const operator = useSession().may("operator");
  const admin = useSession().may("admin");
  const [of, setOf] = useState(operator ? "all" : "tenant");
  return (
    <>
      <PageHead title="Running">
        {operator && admin && (
          <Choice
            label="Of"
            value={of}
            onChange={setOf}
            options={[
              { id: "all", text: "the installation" },
              { id: "tenant", text: "this tenant" },
            ]}
          />
        )}
      </PageHead>
      {of === "all" ? <All /> : <Own />}
    </>
  );
}

function Own() {
  const now = useQuery({
    queryKey: ["operations"],
    queryFn: ({ signal }) => get<Operations>("/v1/operations", signal),
    refetchInterval: every,
  });
  return (
    <>
      <ErrorBox error={now.error} retry={() => void now.refetch()} />
      {now.isPending && <Loading />}
      {now.data && (
        <>
          <Doing activity={now.data.activity} />
          <Failures activity={now.data.activity} />
          <Slow queries={now.data.slow} />
        </>
      )}
      <Live />
    </>
  );
}

function All() {
  const now = useQuery({
    queryKey: ["installation"],
    queryFn: ({ signal }) => get<Installation>("/v1/installation", signal),
    refetchInterval: every,
  });
  const before = useRef<Installation | undefined>(undefined);
  const last = useRef<Installation | undefined>(undefined);
  if (now.data && now.data !== last.current) {
    before.current = last.current;
    last.current = now.data;
  }
  const all = now.data;
  return (
    <>
      <ErrorBox error={now.error} retry={() => void now.refetch()} />
      {now.isPending && <Loading />}
      {all && (
        <>
          {all.problems?.map((p) => (
            <ErrorBox key={p} error={new Error(p)} />
          ))}
          <Doing activity={all.activity} />
          <Busy tenants={all.tenants} />
          <Queues queues={all.queues} outbox={all.outbox} />
          <TaskQueues tasks={all.tasks} />
          <Services
            services={all.services ?? []}
            before={before.current?.services ?? undefined}
            seconds={before.current ? (Date.parse(all.activity.at) - Date.parse(before.current.activity.at)) / 1000 : 0}
            at={all.activity.at}
          />
          <Failures activity={all.activity} />
          <Slow queries={all.slow} names={Object.fromEntries((all.tenants ?? []).map((t) => [t.tenant_id, t.name]))} />
        </>
      )}
    </>
  );
}

const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "short" });
const exact = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });

/** Ingestion in the last hour, and what waits. */
function Doing({ activity: a }: { activity: Activity }) {
  const minutes = a.minutes ?? [];
  const done = minutes.reduce((n, m) => ({ documents: n.documents + m.documents, bytes: n.bytes + m.bytes, failed: n.failed + m.failed }), {
    documents: 0,
    bytes: 0,
    failed: 0,
  });
  const states = [...Object.entries(a.waiting), ...Object.entries(a.jobs).map(([s, n]) => [`jobs ${s}`, n] as const)];
  return (
    <section className="card" aria-label="Ingestion">
      <h2>Ingestion in the last hour</h2>
      <dl className="facts">
        <Fact name="Documents">{count(done.documents)}</Fact>
        <Fact name="Per minute">{(done.documents / minutes.length).toFixed(1)}</Fact>
        <Fact name="Size">{bytesOf(done.bytes)}</Fact>
        <Fact name="Failed">{count(done.failed)}</Fact>
        {states.map(([state, n]) => (
          <Fact key={state} name={`Now ${state}`}>
            {count(n)}
          </Fact>
        ))}
        {a.waiting_since && <Fact name="Oldest that waits">{when(a.waiting_since)}</Fact>}
      </dl>
      <Bars
        title="Documents by minute"
        unit="Minute"
        show={count}
        bars={minutes.map((m) => ({ name: clock.format(new Date(m.at)), value: m.documents, failed: m.failed }))}
      />
    </section>
  );
}

function Fact({ name, children }: { name: string; children: React.ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function Busy({ tenants }: { tenants: Installation["tenants"] }) {
  if (!tenants?.length) return null;
  return (
    <section aria-label="Tenants">
      <h2>Tenants that ingest</h2>
      <table>
        <thead>
          <tr>
            <th>Tenant</th>
            <th className="number">Waiting</th>
            <th className="number">Documents in an hour</th>
            <th className="number">Size</th>
            <th className="number">Failed</th>
          </tr>
        </thead>
        <tbody>
          {tenants.map((t) => (
            <tr key={t.tenant_id}>
              <td className="wide">{t.name}</td>
              <td className="number" data-label="Waiting">{count(t.waiting)}</td>
              <td className="number" data-label="Documents in an hour">{count(t.documents)}</td>
              <td className="number" data-label="Size">{bytesOf(t.bytes)}</td>
              <td className="number" data-label="Failed">{count(t.failed)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function Failures({ activity }: { activity: Activity }) {
  const failures = activity.failures ?? [];
  return (
    <section aria-label="Failures">
      <h2>Failures in 24 hours</h2>
      {failures.length === 0 && <p className="quiet">None.</p>}
      {failures.length > 0 && (
        <table>
          <thead>
            <tr>
              <th>Reason</th>
              <th>Of</th>
              <th className="number">How often</th>
            </tr>
          </thead>
          <tbody>
            {failures.map((f) => (
              <tr key={f.what + f.code}>
                <td className="wide">{f.code}</td>
                <td data-label="Of">{f.what}s</td>
                <td className="number" data-label="How often">{count(f.count)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}

/** The slowest searches and questions, and where their time was spent. names are the tenants' names, if there are several. */
function Slow({ queries: all, names }: { queries: SlowQuery[] | null; names?: Record<string, string> }) {
  const queries = all ?? [];
  return (
    <section aria-label="Slow queries">
      <h2>Slowest in 24 hours</h2>
      {queries.length === 0 && <p className="quiet">Nothing was slow.</p>}
      {queries.length > 0 && (
        <table>
          <thead>
            <tr>
              <th>{names ? "Tenant" : "Question"}</th>
              <th>Kind</th>
              <th>Plan</th>
              <th className="number">Time</th>
              <th>Where it went</th>
              <th>When</th>
            </tr>
          </thead>
          <tbody>
            {queries.map((q) => (
              <tr key={q.id}>
                <td className="wide">
                  {q.question ? <What query={q} /> : (names?.[q.tenant_id] ?? q.tenant_id)}
                  {q.code && <div className="reason">{q.code}</div>}
                </td>
                <td data-label="Kind">{q.kind}</td>
                <td data-label="Plan">{q.plan}</td>
                <td className="number" data-label="Time">{millis(q.ms)}</td>
                <td data-label="Where it went">{shares(q)}</td>
                <td data-label="When">
                  {when(q.at)} <TraceLink trace={q.trace} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}

function What({ query: q }: { query: SlowQuery }) {
  if (q.kind === "search") return q.question;
  return <Link href={`/${q.kind === "job" ? "jobs" : "questions"}/${q.id}`}>{q.question}</Link>;
}

/** The three stages that took longest, with their shares, and time outside all stages, such as a job's time in the queue. */
function shares(q: SlowQuery): string {
  const share = (ms: number) => `${Math.round((100 * ms) / Math.max(q.ms, 1))} %`;
  const stages = q.stages ?? [];
  const longest = [...stages].sort((a, b) => b.ms - a.ms).slice(0, 3);
  const outside = q.ms - stages.reduce((sum, s) => sum + s.ms, 0);
  const out = longest.map((s) => `${s.stage} ${share(s.ms)}`);
  if (stages.length > 0 && outside > 0.1 * q.ms) out.push(`outside of stages ${share(outside)}`);
  return out.join(", ");
}

/** The maximum number of events shown. */
const shown = 50;
const againAfter = 2000;

/** Events as they happen, newest first. */
function Live() {
  const [changes, setChanges] = useState<(ChangeEvent & { n: number })[]>([]);
  const [dropped, setDropped] = useState(0);
  const [error, setError] = useState<Error | null>(null);
  useEffect(() => {
    const leave = new AbortController();
    let n = 0;
    // Many events that arrive together are shown together.
    let waiting: (ChangeEvent & { n: number })[] = [];
    const show = setInterval(() => {
      if (waiting.length === 0) return;
      const newest = waiting.reverse();
      waiting = [];
      setChanges((old) => [...newest, ...old].slice(0, shown));
    }, 250);
    const follow = async () => {
      while (!leave.signal.aborted) {
        try {
          setError(null);
          await stream("GET", "/v1/events", undefined, leave.signal, ({ event, data }) => {
            if (event !== "change") return;
            const c = data as ChangeEvent;
            if (c.dropped) setDropped((d) => d + (c.dropped ?? 0));
            waiting.push({ ...c, n: n++ });
            if (waiting.length > shown) waiting.shift();
          });
        } catch (e) {
          if (leave.signal.aborted) return;
          setError(e as Error);
          if (e instanceof APIError && e.status >= 400 && e.status < 500 && e.status !== 429) return;
        }
        await new Promise((next) => setTimeout(next, againAfter));
      }
    };
    void follow();
    return () => {
      clearInterval(show);
      leave.abort();
    };
  }, []);
  return (
    <section aria-label="Events">
      <h2>Events</h2>
      <ErrorBox error={error} />
      {changes.length === 0 && <Empty>What happens from now on is shown here.</Empty>}
      {changes.length > 0 && (
        <table>
          <thead>
            <tr>
              <th>At</th>
              <th>What</th>
              <th>Of</th>
            </tr>
          </thead>
          <tbody>
            {changes.map((c) => (
              <tr key={c.n}>
                <td>{exact.format(new Date(c.at))}</td>
                <td>{c.kind}</td>
                <td className="wide">
                  {c.document_id && <Link href={`/documents/${c.document_id}`}>{c.external_id || c.document_id}</Link>}
                  {c.job_id && <Link href={`/jobs/${c.job_id}`}>{c.job_id}</Link>}
                  {c.reason && <div className="reason">{c.reason.message}</div>}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {dropped > 0 && <p className="quiet">{count(dropped)} more came too fast to be shown.</p>}
    </section>
  );
}
