import { useInfiniteQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { Link, useLocation } from "wouter";
import { AnswerView } from "./answer";
import { get, type Page, post, stream, withQuery } from "./api";
import { type Asked, QuestionForm } from "./question";
import { QuestionTable } from "./questiontable";
import { count } from "./text";
import type { Answer, AskedQuestion, DeltaEvent, Job, StageEvent } from "./types";
import { Action, Empty, ErrorBox, Loading, PageHead } from "./ui";

interface Going {
  question: string;
  choices?: string[];
  stage: StageEvent | null;
  text: string;
  answer: Answer | null;
  error: Error | null;
  over: boolean;
}

const begun = ({ query: question, choices }: Asked): Going => ({
  question,
  choices,
  stage: null,
  text: "",
  answer: null,
  error: null,
  over: false,
});

export function AskPage() {
  const [going, setGoing] = useState<Going | null>(null);
  const [asJob, setAsJob] = useState(false);
  const [, go] = useLocation();
  const cache = useQueryClient();
  const leave = useRef<AbortController>(null);
  useEffect(() => () => leave.current?.abort(), []);

  const ask = async (q: Asked) => {
    leave.current?.abort();
    const controller = new AbortController();
    leave.current = controller;
    setGoing(begun(q));
    const change = (f: (g: Going) => Going) => {
      if (leave.current === controller) setGoing((g) => g && f(g));
    };
    try {
      if (asJob) {
        const job = await post<Job>("/v1/jobs", q);
        return go(`/jobs/${job.id}`);
      }
      await stream("POST", "/v1/ask", { ...q, explain: true }, controller.signal, ({ event, data }) => {
        if (event === "stage") change((g) => ({ ...g, stage: data as StageEvent }));
        if (event === "answer") change((g) => ({ ...g, answer: data as Answer }));
        if (event === "delta") {
          const d = data as DeltaEvent;
          change((g) => ({ ...g, text: (d.restart ? "" : g.text) + d.text }));
        }
      });
      change((g) => ({
        ...g,
        over: true,
        error: g.answer ? null : new Error("the server ended the stream before the answer; ask again"),
      }));
    } catch (e) {
      const stopped = controller.signal.aborted;
      change((g) => ({ ...g, over: true, error: stopped ? new Error("you stopped it") : (e as Error) }));
    }
    void cache.invalidateQueries({ queryKey: ["questions"] });
  };
  const busy = going !== null && !going.over;
  return (
    <>
      <PageHead title="Ask" />
      <QuestionForm label="Ask" busy={busy} submit={(q) => void ask(q)} chooses error={going?.error}>
        <label className="check-line">
          <input type="checkbox" checked={asJob} onChange={(e) => setAsJob(e.target.checked)} />
          As a job, with a link that lasts
        </label>
      </QuestionForm>
      {going && (
        <section aria-label="Answer">
          {busy && (
            <div className="row">
              <StageLine stage={going.stage} />
              <Action onPress={() => leave.current?.abort()}>Stop</Action>
            </div>
          )}
          <ErrorBox error={going.error} />
          {going.answer ? (
            <>
              {going.answer.question_id && (
                <p className="quiet">
                  <Link href={`/questions/${going.answer.question_id}`}>A link to this answer that lasts</Link>
                </p>
              )}
              <AnswerView answer={going.answer} choices={going.choices} />
            </>
          ) : (
            going.text && <p className="answer answer-text">{going.text}</p>
          )}
        </section>
      )}
      <History />
    </>
  );
}

/** Earlier questions, newest first. */
function History() {
  const list = useInfiniteQuery({
    queryKey: ["questions"],
    queryFn: ({ pageParam, signal }) =>
      get<Page<AskedQuestion>>(withQuery("/v1/questions", { limit: 20, cursor: pageParam }), signal),
    initialPageParam: "",
    getNextPageParam: (page) => page.next,
  });
  const asked = list.data?.pages.flatMap((p) => p.items) ?? [];
  return (
    <section aria-label="Asked before">
      <h2>Asked before</h2>
      <ErrorBox error={list.error} retry={() => void list.refetch()} />
      {list.isPending && <Loading />}
      {list.isSuccess && asked.length === 0 && <Empty>Nothing was asked yet.</Empty>}
      {asked.length > 0 && <QuestionTable of={asked} at="/questions" />}
      {list.hasNextPage && (
        <Action isPending={list.isFetchingNextPage} onPress={() => void list.fetchNextPage()}>
          More questions
        </Action>
      )}
    </section>
  );
}

const doing: Record<string, string> = {
  understand: "Reading the question",
  retrieve: "Looking for passages",
  generate: "Writing the answer",
  judge: "Judging the answer",
  finish: "Checking the citations",
};

export function StageLine({ stage: s }: { stage: StageEvent | null }) {
  return (
    <p role="status" className="quiet">
      {s ? (doing[s.stage] ?? s.stage) : "Waiting"}
      {s?.candidates ? `, from ${count(s.candidates)} candidates` : ""}
      {s?.round && s.round > 1 ? `, round ${s.round}` : ""}…
    </p>
  );
}
