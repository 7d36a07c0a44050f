import { useId, useState } from "react";
import { count, millis, score } from "./text";
import type { Judged, StageReport } from "./types";

/** The minimum width of a band, of 100. */
const least = 1.5;

/** The run of a plan: one band per stage, as wide as its number of candidates. A band expands to what was kept and dropped. */
export function Funnel({ trace }: { trace: StageReport[] }) {
  const [open, setOpen] = useState<number | null>(null);
  const most = Math.max(1, ...trace.flatMap((s) => [s.in, s.out]));
  const total = trace.reduce((sum, s) => sum + s.ms, 0);
  const width = (n: number) => (n === 0 ? 0 : Math.max(least, (100 * n) / most));
  return (
    <section className="funnel" aria-label="The stages of the plan">
      <ol>
        {trace.map((s, i) => (
          // A plan may have the same stage twice, so a stage is identified by its index.
          <li key={i}>
            <Stage
              stage={s}
              above={width(s.in || s.out)}
              below={width(s.out)}
              total={total}
              open={open === i}
              toggle={() => setOpen(open === i ? null : i)}
            />
          </li>
        ))}
      </ol>
      <p className="quiet">
        {trace.length} stages, {millis(total)}. A band is as wide as its candidates, {count(most)} at most.
      </p>
    </section>
  );
}

function Stage({
  stage: s,
  above,
  below,
  total,
  open,
  toggle,
}: {
  stage: StageReport;
  above: number;
  below: number;
  total: number;
  open: boolean;
  toggle: () => void;
}) {
  const id = useId();
  const points = `${50 - above / 2},0 ${50 + above / 2},0 ${50 + below / 2},10 ${50 - below / 2},10`;
  const found = s.in === 0;
  return (
    <>
      <button type="button" className="stage" aria-expanded={open} aria-controls={id} onClick={toggle}>
        <span className="stage-name">{s.stage}</span>
        <svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
          <polygon points={points} />
        </svg>
        <span className="stage-counts">
          {found ? `found ${count(s.out)}` : `${count(s.in)} → ${count(s.out)}`}{" "}
          {s.unit && `${s.unit}s`.replace(/^(.*)ss$/, "$1s")}
        </span>
        <span className="stage-time">
          {millis(s.ms)}
          <span className="time" aria-hidden="true">
            <span style={{ width: `${total > 0 ? (100 * s.ms) / total : 0}%` }} />
          </span>
        </span>
      </button>
      {open && (
        <div className="stage-detail" id={id}>
          {s.why && <p>{s.why}</p>}
          <List title={`Kept ${count(s.out)}`} of={s.out} items={s.kept} />
          <List
            title={`Dropped ${count(Math.max(0, s.in - s.out))}`}
            of={Math.max(0, s.in - s.out)}
            items={s.dropped}
          />
          {!s.kept?.length && !s.dropped?.length && (
            <p className="quiet">Search with an explanation to see which ones it kept and dropped.</p>
          )}
          {s.statistics && (
            <p className="quiet">
              {Object.entries(s.statistics)
                .map(([k, v]) => `${k} ${score(v)}`)
                .join(" · ")}
            </p>
          )}
        </div>
      )}
    </>
  );
}

function List({ title, of, items }: { title: string; of: number; items?: Judged[] | null }) {
  if (!items?.length) return null;
  const reasons = items.some((j) => j.why);
  return (
    <>
      <h4>
        {title}
        {of > items.length && <span className="quiet">, the first {items.length}</span>}
      </h4>
      <div className="scroll">
        <table>
          <thead>
            <tr>
              <th>What</th>
              <th className="number">Score</th>
              <th>Scores</th>
              {reasons && <th>Why</th>}
            </tr>
          </thead>
          <tbody>
            {items.map((j, i) => (
              <tr key={i}>
                <td className="wide">
                  {j.document || (j.cluster && `cluster ${j.cluster.slice(-6)}`) || "–"}
                  {j.location && <div className="quiet">{j.location}</div>}
                </td>
                <td className="number" data-label="Score">
                  {score(j.score)}
                </td>
                <td data-label="Scores">
                  {Object.entries(j.scores ?? {})
                    .map(([k, v]) => `${k} ${score(v)}`)
                    .join(", ")}
                </td>
                {reasons && <td data-label="Why">{j.why}</td>}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}
