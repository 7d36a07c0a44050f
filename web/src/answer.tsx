import { Fragment } from "react";
import { Link } from "wouter";
import { Funnel } from "./funnel";
import { PlaceLink } from "./place";
import { Rating } from "./rating";
import { Bytes, count, millis, plural, spanPath } from "./text";
import type { Answer, Citation, Sentence } from "./types";

/** An answer, the citations of its sentences, and how it was found. */
export function AnswerView({ answer: a, choices }: { answer: Answer; choices?: string[] | null }) {
  const citations = a.citations ?? [];
  return (
    <div className="answer-view">
      <div className={a.supported || a.uncited ? "answer" : "answer unsupported"} aria-live="polite">
        <Chosen choice={a.choice ?? 0} of={choices ?? []} guessed={!a.supported} />
        <p className="answer-text">
          <AnswerText answer={a} citations={citations} />
        </p>
        {a.notes?.map((note) => <p className="quiet" key={note}>{note}</p>)}
        {a.uncited && <p className="quiet">From the model's own knowledge, without a source.</p>}
      </div>
      {a.question_id && !a.withheld && <Rating key={a.question_id} question={a.question_id} />}
      {citations.length > 0 && (
        <section aria-label={a.supported ? "Sources" : "Nearest passages"}>
          <h2>{a.supported ? "Sources" : "Nearest passages"}</h2>
          <ol className="sources">
            {citations.map((c, i) => (
              <li key={i}>
                <Link href={spanPath(c.document_id, c.span, c.answer)}>{c.title || c.document}</Link>
                <PlaceLink path={spanPath(c.document_id, c.span, c.answer)} page={c.page} location={c.location} />
                <blockquote>
                  <Quote citation={c} />
                </blockquote>
              </li>
            ))}
          </ol>
        </section>
      )}
      <p className="quiet">
        Plan {a.plan}
        {a.rounds !== undefined && a.rounds > 1 && `, ${plural(a.rounds, "round")}`}
        {a.usage.model && `, ${a.usage.model}`}
        {a.usage.input_tokens + a.usage.output_tokens > 0 &&
          `, ${count(a.usage.input_tokens)} tokens in, ${count(a.usage.output_tokens)} out`}
        {a.usage.ms > 0 && `, generated in ${millis(a.usage.ms)}`}
        {a.usage.cost ? `, $${a.usage.cost.toFixed(4)}` : a.usage.cached && ", from the cache"}
      </p>
      {(a.trace?.length ?? 0) > 0 && (
        <>
          <h2>How it was found</h2>
          <Funnel trace={a.trace ?? []} />
        </>
      )}
    </div>
  );
}

/** The choices, with the one that was selected. */
function Chosen({ choice, of, guessed }: { choice: number; of: string[]; guessed: boolean }) {
  if (of.length === 0) return null;
  return (
    <>
      <ol className="choices" aria-label="Choices">
        {of.map((c, i) => (
          <li key={i} aria-current={i + 1 === choice ? "true" : undefined}>
            {i + 1 === choice ? <b>{c}</b> : c}
          </li>
        ))}
      </ol>
      <p className="quiet">
        {choice === 0 ? "None of them was chosen." : guessed ? "Chosen, but nothing that was found proves it." : "Chosen."}
      </p>
    </>
  );
}

function AnswerText({ answer: a, citations }: { answer: Answer; citations: Citation[] }) {
  const sentences = [...(a.sentences ?? [])].sort((x, y) => x.start - y.start);
  const text = new Bytes(a.answer);
  if (sentences.length === 0) {
    return (
      <>
        {a.answer}
        {a.supported && citations.map((c, i) => <Mark key={`${c.span.section}.${c.span.start}`} n={i} citation={c} />)}
      </>
    );
  }
  return (
    <>
      {sentences.map((s, i) => (
        <Fragment key={s.start}>
          {text.slice(i === 0 ? 0 : (sentences[i - 1]?.end ?? 0), s.start)}
          <SentenceText sentence={s} text={text.slice(s.start, s.end)} citations={citations} />
        </Fragment>
      ))}
      {text.slice(sentences.at(-1)?.end ?? 0, text.length)}
    </>
  );
}

function SentenceText({ sentence: s, text, citations }: { sentence: Sentence; text: string; citations: Citation[] }) {
  return (
    <>
      {s.supported ? (
        text
      ) : (
        <span className="doubtful" title="Nothing that was cited proves this sentence.">
          {text}
          <span className="hidden"> (not proved by what was cited)</span>
        </span>
      )}
      {(s.citations ?? []).map((n) => {
        const c = citations[n];
        return c && <Mark key={n} n={n} citation={c} />;
      })}
    </>
  );
}

/** The number of a citation, which opens the quoted text. */
function Mark({ n, citation: c }: { n: number; citation: Citation }) {
  return (
    <sup>
      <Link
        className="cite"
        href={spanPath(c.document_id, c.span, c.answer)}
        aria-label={`Source ${n + 1}: ${c.title || c.document}, ${c.location}`}
        title={c.quote}
      >
        {n + 1}
      </Link>
    </sup>
  );
}

/** A quote with the part that is an answer by itself. */
function Quote({ citation: c }: { citation: Citation }) {
  if (!c.answer?.text) return c.quote;
  const text = new Bytes(c.quote);
  return (
    <>
      {text.slice(0, c.answer.start)}
      <mark>{text.slice(c.answer.start, c.answer.end)}</mark>
      {text.slice(c.answer.end, text.length)}
    </>
  );
}
