// What language models cost a tenant: today and this month with its limits, and day by day.

import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { get, withQuery } from "./api";
import { Bars } from "./charts";
import { count, when } from "./text";
import type { LLMSpent as Spent, LLMUsage as Usage, UsageDay, UsageDays } from "./types";
import { Choice, ErrorBox, Loading } from "./ui";

/** The usage at a path of the API: one's own, or a tenant's. */
export function UsageOf({ path }: { path: string }) {
  const usage = useQuery({
    queryKey: ["usage", path],
    queryFn: ({ signal }) => get<Usage>(path, signal),
    refetchInterval: 10_000,
  });
  const u = usage.data;
  return (
    <>
      <ErrorBox error={usage.error} retry={() => void usage.refetch()} />
      {usage.isPending && <Loading />}
      {u && (
        <>
          <div className="cards">
            <Time title="Today" spent={u.day} tokens={u.limits.tokens_per_day} dollars={u.limits.dollars_per_day} />
            <Time
              title="This month"
              spent={u.month}
              tokens={u.limits.tokens_per_month}
              dollars={u.limits.dollars_per_month}
            />
          </div>
          <p className="quiet">
            {count(u.in_progress)} calls in progress, which may add {count(u.reserved_tokens)} tokens and{" "}
            {money(u.reserved_dollars)}. {rates(u)}
          </p>
          <History path={path} limits={u.limits} />
        </>
      )}
    </>
  );
}

const spans = [
  { id: "7", text: "7 days" },
  { id: "30", text: "30 days" },
  { id: "90", text: "90 days" },
  { id: "365", text: "a year" },
];

function History({ path, limits }: { path: string; limits: Usage["limits"] }) {
  const [days, setDays] = useState("30");
  const history = useQuery({
    queryKey: ["usage", path, "days", days],
    queryFn: ({ signal }) => get<UsageDays>(withQuery(`${path}/days`, { days }), signal),
    refetchInterval: 60_000,
    placeholderData: (before) => before,
  });
  const list = history.data?.days ?? [];
  const bars = (value: (d: UsageDay) => number) => list.map((d) => ({ name: d.day.slice(0, 10), value: value(d) }));
  return (
    <section aria-label="By day">
      <div className="row">
        <h2>By day</h2>
        <Choice label="Of the last" value={days} onChange={setDays} options={spans} />
      </div>
      <ErrorBox error={history.error} retry={() => void history.refetch()} />
      {history.data && (
        <div className="cards">
          <div className="card">
            <Bars
              title="Tokens"
              unit="Day"
              show={count}
              bars={bars((d) => d.input_tokens + d.output_tokens)}
              limit={limits.tokens_per_day}
              limitName="the limit of a day"
            />
          </div>
          <div className="card">
            <Bars
              title="Money"
              unit="Day"
              show={money}
              bars={bars((d) => d.dollars)}
              limit={limits.dollars_per_day}
              limitName="the limit of a day"
            />
          </div>
          <div className="card">
            <Bars title="Calls" unit="Day" show={count} bars={bars((d) => d.calls)} />
          </div>
        </div>
      )}
    </section>
  );
}

function rates(u: Usage): string {
  const out = [];
  if (u.limits.calls_per_minute !== undefined) out.push(`at most ${count(u.limits.calls_per_minute)} calls a minute`);
  if (u.limits.calls_at_once !== undefined) out.push(`at most ${count(u.limits.calls_at_once)} at once`);
  return out.length > 0 ? `Allowed: ${out.join(", ")}.` : "";
}

function Time({ title, spent: s, tokens, dollars }: { title: string; spent: Spent; tokens?: number; dollars?: number }) {
  return (
    <section className="card" aria-label={title}>
      <h2>{title}</h2>
      <Budget name="Tokens" used={s.input_tokens + s.output_tokens} limit={tokens} show={count} />
      <Budget name="Money" used={s.dollars} limit={dollars} show={money} />
      <p className="quiet">
        {count(s.calls)} calls, {count(s.cached)} from the cache; {count(s.input_tokens)} tokens in, {count(s.output_tokens)}{" "}
        out. Begins anew {when(s.resets)}.
      </p>
    </section>
  );
}

const money = (n: number) => `$${n.toFixed(n > 0 && n < 1 ? 4 : 2)}`;

/** The used part of a budget, in words and as a bar. */
export function Budget({
  name,
  used,
  limit,
  show,
}: {
  name: string;
  used: number;
  limit?: number;
  show: (n: number) => string;
}) {
  const share = limit === undefined ? 0 : limit > 0 ? Math.min(1, used / limit) : 1;
  return (
    <div>
      <p>
        {name}: {show(used)} {limit === undefined ? <span className="quiet">without a limit</span> : `of ${show(limit)}`}
      </p>
      {limit !== undefined && (
        <div className="bar budget" aria-hidden="true">
          <span className={share >= 1 ? "share failed" : share > 0.8 ? "share processing" : "share ready"} style={{ width: `${100 * share}%` }} />
        </div>
      )}
    </div>
  );
}
