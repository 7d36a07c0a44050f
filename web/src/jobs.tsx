import { useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { Link } from "wouter";
import { AnswerView } from "./answer";
import { APIError, get, type Page, post, stream, withQuery } from "./api";
import { TraceLink } from "./charts";
import { StageLine } from "./ask";
import { inWords } from "./filters";
import { useCollections } from "./question";
import { QuestionTable } from "./questiontable";
import { when } from "./text";
import type { AskedQuestion, DeltaEvent, Job } from "./types";
import { Action, Empty, ErrorBox, Loading, PageHead, StateBadge } from "./ui";

const ended = (j: Job) => ["answered", "failed", "cancelled"].includes(j.state);

export function JobsPage() {
  const list = useInfiniteQuery({
    queryKey: ["jobs"],
    queryFn: ({ pageParam, signal }) => get<Page<Job>>(withQuery("/v1/jobs", { limit: 50, cursor: pageParam }), signal),
    initialPageParam: "",
    getNextPageParam: (page) => page.next,
    refetchInterval: (q) => (q.state.data?.pages.some((p) => p.items.some((j) => !ended(j))) ? 3000 : false),
  });
  const jobs = list.data?.pages.flatMap((p) => p.items) ?? [];
  return (
    <>
      <PageHead title="Jobs">
        <Link className="action" href="/ask">
          Ask
        </Link>
      </PageHead>
      <ErrorBox error={list.error} retry={() => void list.refetch()} />
      {list.isPending && <Loading />}
      {list.isSuccess && jobs.length === 0 && <Empty>No question was asked as a job yet.</Empty>}
      {jobs.length > 0 && <QuestionTable of={jobs} at="/jobs" />}
      {list.hasNextPage && (
        <Action isPending={list.isFetchingNextPage} onPress={() => void list.fetchNextPage()}>
          More jobs
        </Action>
      )}
    </>
  );
}

const againAfter = 1000;

/** Follows a job, and the text of its answer, until it ends. A stream that breaks is requested again. */
function useJob(id: string): { job: Job | null; text: string; error: Error | null } {
  const [job, setJob] = useState<Job | null>(null);
  const [text, setText] = useState("");
  const [error, setError] = useState<Error | null>(null);
  useEffect(() => {
    const leave = new AbortController();
    const follow = async () => {
      let over = false;
      while (!over && !leave.signal.aborted) {
        try {
          await stream("GET", `/v1/jobs/${id}/events`, undefined, leave.signal, ({ event, data }) => {
            if (event === "delta") {
              const d = data as DeltaEvent;
              setText((before) => (d.restart ? "" : before) + d.text);
            }
            if (event !== "job") return;
            setError(null);
            setJob(data as Job);
            over = ended(data as Job);
          });
        } catch (e) {
          if (leave.signal.aborted) return;
          setError(e as Error);
          if (e instanceof APIError && e.status >= 400 && e.status < 500 && e.status !== 429) return;
        }
        if (!over) await new Promise((next) => setTimeout(next, againAfter));
      }
    };
    void follow();
    return () => leave.abort();
  }, [id]);
  return { job, text, error };
}

export function JobPage({ id }: { id: string }) {
  const cache = useQueryClient();
  const { job, text, error } = useJob(id);
  const [refused, setRefused] = useState<Error | null>(null);
  const above = <Link href="/jobs">Jobs</Link>;
  if (!job) {
    return (
      <>
        <PageHead title="Job" above={above} />
        {error ? <ErrorBox error={error} /> : <Loading />}
      </>
    );
  }
  const cancel = async () => {
    setRefused(null);
    try {
      await post(`/v1/jobs/${id}/cancel`);
      await cache.invalidateQueries({ queryKey: ["jobs"] });
    } catch (e) {
      setRefused(e as Error);
    }
  };
  return (
    <>
      <PageHead title={job.question} above={above}>
        {!ended(job) && <Action onPress={() => void cancel()}>Cancel</Action>}
      </PageHead>
      <p>
        <StateBadge state={job.state} />{" "}
        <span className="quiet">
          asked {when(job.created_at)}, plan {job.plan} <TraceLink trace={job.trace} />
        </span>
      </p>
      <ErrorBox error={refused ?? error} />
      {!ended(job) && <StageLine stage={job.stage ? { stage: job.stage } : null} />}
      {!ended(job) && text && <p className="answer answer-text">{text}</p>}
      {job.reason && (
        <p className="reason">
          <b>{job.reason.code}</b>: {job.reason.message}
        </p>
      )}
      {job.choices && !job.result && (
        <ol>
          {job.choices.map((c) => (
            <li key={c}>{c}</li>
          ))}
        </ol>
      )}
      {job.result && <AnswerView answer={job.result} choices={job.choices} />}
    </>
  );
}

/** A question by its link, whether it was asked as a job or synchronously. */
export function QuestionPage({ id }: { id: string }) {
  const asked = useQuery({
    queryKey: ["question", id],
    queryFn: ({ signal }) => get<AskedQuestion>(`/v1/questions/${id}`, signal),
    refetchInterval: (q) => (q.state.data && !q.state.data.async && !ended(q.state.data) ? 2000 : false),
  });
  const q = asked.data;
  const above = <Link href="/ask">Ask</Link>;
  if (!q) {
    return (
      <>
        <PageHead title="Question" above={above} />
        <ErrorBox error={asked.error} retry={() => void asked.refetch()} />
        {asked.isPending && <Loading />}
      </>
    );
  }
  if (q.async) {
    return (
      <>
        <JobPage id={id} />
        <AskedAs question={q} />
      </>
    );
  }
  return (
    <>
      <PageHead title={q.question} above={above} />
      <p>
        <StateBadge state={q.state} />{" "}
        <span className="quiet">
          asked {when(q.created_at)}, plan {q.plan}
        </span>
      </p>
      {q.reason && (
        <p className="reason">
          <b>{q.reason.code}</b>: {q.reason.message}
        </p>
      )}
      {q.result && <AnswerView answer={q.result} choices={q.choices} />}
      <AskedAs question={q} />
    </>
  );
}

/** The details of a question, and a way to ask it again. */
function AskedAs({ question: q }: { question: AskedQuestion }) {
  const collections = useCollections();
  const collection = collections.data?.find((c) => c.id === q.collection_id)?.name;
  const again = withQuery("/ask", {
    collection: q.collection_id,
    q: q.question,
    // A plan that was tried as text has no name to ask it by.
    plan: q.plan_text ? "" : q.plan,
    filter: q.filter?.length ? JSON.stringify(q.filter) : "",
    choices: q.choices?.length ? JSON.stringify(q.choices) : "",
  });
  // The link below must not move under a pointer when the collection's name arrives.
  if (collections.isPending) return null;
  return (
    <section aria-label="How it was asked">
      <p className="quiet">
        {collection && (
          <>
            Of <Link href={`/collections/${encodeURIComponent(collection)}`}>{collection}</Link>
            {q.filter?.length ? `, where ${q.filter.map(inWords).join(" and ")}` : ""}.{" "}
          </>
        )}
        {q.person && `Asked for ${q.person}. `}
        <Link href={again}>Ask it again</Link>
      </p>
      {q.plan_text && (
        <details>
          <summary>The plan as it was then</summary>
          <pre className="code">{q.plan_text}</pre>
        </details>
      )}
    </section>
  );
}
