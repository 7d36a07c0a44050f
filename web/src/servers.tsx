// Queues, workers and services of an installation.

import { perSecond } from "./running";
import type { GraphState, Installation, ServiceState } from "./types";
import { bytesOf, count, millis, when } from "./text";

export function Queues({ queues, outbox }: { queues: Installation["queues"]; outbox: Installation["outbox"] }) {
  return (
    <section aria-label="Queues">
      <h2>Queues</h2>
      <p className="quiet">
        {count(outbox.messages)} messages wait in the store to be published
        {outbox.oldest && `, the oldest since ${when(outbox.oldest)}`}.
      </p>
      <table>
        <thead>
          <tr>
            <th>Stream</th>
            <th className="number">Messages</th>
            <th>Oldest</th>
            <th>Who takes them</th>
            <th className="number">Lag</th>
            <th className="number">Worked on</th>
            <th className="number">Given again</th>
            <th className="number">Idle requests</th>
          </tr>
        </thead>
        <tbody>
          {queues?.flatMap((q) =>
            (q.consumers?.length ? q.consumers : [undefined]).map((c, i) => (
              <tr key={q.name + (c?.name ?? "")}>
                <td className="wide">
                  {i === 0 && (
                    <>
                      {q.name} <span className="quiet">{bytesOf(q.bytes)}</span>
                    </>
                  )}
                </td>
                <td className="number" data-label="Messages">{i === 0 && count(q.messages)}</td>
                <td data-label="Oldest">{i === 0 && when(q.oldest)}</td>
                <td data-label="Taken by">{c?.name ?? "nobody"}</td>
                <td className="number" data-label="Lag">{c && count(c.lag)}</td>
                <td className="number" data-label="Worked on">{c && count(c.unconfirmed)}</td>
                <td className="number" data-label="Given again">{c && count(c.redelivered)}</td>
                <td className="number" data-label="Idle requests">{c && count(c.asking)}</td>
              </tr>
            )),
          )}
        </tbody>
      </table>
    </section>
  );
}

export function TaskQueues({ tasks }: { tasks: Installation["tasks"] }) {
  return (
    <section aria-label="Workers">
      <h2>Workers</h2>
      {!tasks?.length && (
        <p className="quiet">
          Temporal's queues are shown where the API has <code>SLUICE_TEMPORAL_ADDRESS</code>.
        </p>
      )}
      {tasks && tasks.length > 0 && (
        <table>
          <thead>
            <tr>
              <th>Task queue</th>
              <th>Tasks of</th>
              <th className="number">Waiting</th>
              <th className="number">Since</th>
              <th className="number">Added</th>
              <th className="number">Taken</th>
              <th>Workers seen</th>
            </tr>
          </thead>
          <tbody>
            {tasks.map((q) => (
              <tr key={q.name + q.kind}>
                <td className="wide">{q.name}</td>
                <td data-label="Tasks of">{q.kind === "workflow" ? "workflows" : "activities"}</td>
                <td className="number" data-label="Waiting">{count(q.backlog)}</td>
                <td className="number" data-label="Since">{q.backlog > 0 ? millis(q.age_seconds * 1000) : ""}</td>
                <td className="number" data-label="Added">{rate(q.added_per_second)}</td>
                <td className="number" data-label="Taken">{rate(q.taken_per_second)}</td>
                <td data-label="Workers">{q.workers?.length ? workers(q.workers) : <span className="reason">none</span>}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}

function workers(seen: { name: string; seen: string }[]): string {
  return [...new Set(seen.map((w) => w.name))].join(", ");
}

const rate = (n: number) => `${n >= 10 ? count(Math.round(n)) : n.toFixed(1)} /s`;

/** The services that answer requests. before is the state some seconds ago, for rates. */
export function Services({
  services,
  before,
  seconds,
  at,
}: {
  services: ServiceState[];
  before?: ServiceState[];
  seconds: number;
  at: string;
}) {
  const models = services.filter((s) => s.model);
  const sorted = services.filter((s) => !s.model).sort((a, b) => (a.service + a.host + a.pid).localeCompare(b.service + b.host + b.pid));
  /** The earlier reading of a service, and its age; without one, the service's start. */
  const since = (s: ServiceState): [ServiceState | undefined, number] => {
    const old = before?.find((b) => b.id === s.id);
    return old && seconds > 0 ? [old, seconds] : [undefined, Math.max(1, (Date.parse(at) - Date.parse(s.since)) / 1000)];
  };
  return (
    <>
      <section aria-label="Services">
        <h2>Services</h2>
        {sorted.length === 0 && <p className="reason">Nothing answers searches, questions or language model calls.</p>}
        {sorted.length > 0 && (
          <table>
            <thead>
              <tr>
                <th>Service</th>
                <th>Process</th>
                <th className="number">Running</th>
                <th className="number">Waiting</th>
                <th className="number">Rate</th>
                <th className="number">Mean time</th>
                <th className="number">Refused</th>
                <th>Since</th>
              </tr>
            </thead>
            <tbody>
              {sorted.map((s) => {
                const [old, over] = since(s);
                // For the requests since the last reading; if there were none, for all.
                const last = old && s.served > old.served ? { served: s.served - old.served, ms: s.ms - old.ms } : s;
                return (
                  <tr key={s.id}>
                    <td className="wide">{s.service}</td>
                    <td data-label="Process">
                      {s.program} <span className="quiet">{`${s.host} ${s.pid}`}</span>
                    </td>
                    <td className="number" data-label="Running">{`${count(s.running)} of ${count(s.places)}`}</td>
                    <td className="number" data-label="Waiting">{count(s.waiting)}</td>
                    <td className="number" data-label="Rate">{rate(perSecond(s.served, old?.served ?? 0, over))}</td>
                    <td className="number" data-label="Mean time">{last.served > 0 ? millis(last.ms / last.served) : ""}</td>
                    <td className="number" data-label="Refused">{count(s.refused)}</td>
                    <td data-label="Since">{when(s.since)}</td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        )}
      </section>
      <section aria-label="Model servers">
        <h2>Model servers</h2>
        {models.length === 0 && <p className="reason">No model server answers.</p>}
        {models.map((s) => {
          const [old, over] = since(s);
          return <ModelServer key={s.id} server={s} before={old} seconds={over} />;
        })}
      </section>
    </>
  );
}

function ModelServer({ server: s, before, seconds }: { server: ServiceState; before?: ServiceState; seconds: number }) {
  const m = s.model;
  if (!m) return null;
  const graphs = m.graphs ?? [];
  const old = (g: GraphState) => before?.model?.graphs?.find((b) => b.graph === g.graph);
  return (
    <div className="card">
      <h3>
        {s.program} {s.host} {s.pid}
      </h3>
      <p>
        Pack {m.pack} on {m.provider}: {count(s.running)} of {count(s.places)} batches run; {count(s.waiting)} requests with{" "}
        {count(m.held_sequences)} of at most {count(m.max_sequences)} texts are held; {rate(perSecond(s.served, before?.served ?? 0, seconds))} requests,{" "}
        {count(s.refused)} refused since {when(s.since)}.
      </p>
      <table>
        <thead>
          <tr>
            <th>Graph</th>
            <th className="number">Waiting</th>
            <th className="number">Items</th>
            <th className="number">Items of a batch</th>
            <th className="number">Time of a batch</th>
            <th className="number">Tokens</th>
            <th className="number">Padding</th>
            <th className="number">Busy</th>
          </tr>
        </thead>
        <tbody>
          {graphs.map((g) => {
            const b = old(g);
            const ms = g.ms - (b?.ms ?? 0);
            // For the batches since the last reading; if there were none, for all.
            const last = b && g.batches > b.batches ? { batches: g.batches - b.batches, items: g.items - b.items, ms } : g;
            const cells = g.tokens + g.padding;
            return (
              <tr key={g.graph}>
                <td className="wide">{g.graph}</td>
                <td className="number" data-label="Waiting">{count(g.interactive + g.bulk)}</td>
                <td className="number" data-label="Items">{rate(perSecond(g.items, b?.items ?? 0, seconds))}</td>
                <td className="number" data-label="Items of a batch">{last.batches > 0 ? (last.items / last.batches).toFixed(1) : ""}</td>
                <td className="number" data-label="Time of a batch">{last.batches > 0 ? millis(last.ms / last.batches) : ""}</td>
                <td className="number" data-label="Tokens">{rate(perSecond(g.tokens, b?.tokens ?? 0, seconds))}</td>
                <td className="number" data-label="Padding">{cells > 0 ? `${((100 * g.padding) / cells).toFixed(1)} %` : ""}</td>
                <td className="number" data-label="Busy">{`${Math.round(ms / 10 / seconds)} %`}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}
