// Numbers over time, as bars and, for people who cannot see them, as a table.

import { useId } from "react";
import { useSession } from "./session";

export interface Bar {
  /** What the bar stands for, such as a day. */
  name: string;
  value: number;
  /** The part of the bar's height that is bad. */
  failed?: number;
}

const height = 120;
const step = 10;

export function Bars({
  title,
  bars,
  show,
  limit,
  limitName,
  unit,
}: {
  title: string;
  bars: Bar[];
  show: (n: number) => string;
  /** Where a line is drawn, if the bars come near it. */
  limit?: number;
  limitName?: string;
  /** Heading of the bars' names in the table. */
  unit: string;
}) {
  const id = useId();
  const total = (b: Bar) => b.value + (b.failed ?? 0);
  const most = Math.max(0, ...bars.map(total));
  // A limit far above all bars would make them invisible.
  const line = limit !== undefined && limit > 0 && limit <= 4 * most ? limit : undefined;
  const top = Math.max(most, line ?? 0) || 1;
  const y = (n: number) => (height * n) / top;
  const failures = bars.some((b) => b.failed !== undefined);
  return (
    <figure className="chart" aria-labelledby={id}>
      <figcaption id={id}>
        {title}: <span className="quiet">{most > 0 ? `${show(most)} at most` : "none"}</span>
      </figcaption>
      <svg viewBox={`0 0 ${step * bars.length} ${height}`} preserveAspectRatio="none" aria-hidden="true">
        {bars.map((b, i) => (
          <g key={b.name}>
            <title>{`${b.name}: ${show(b.value)}${b.failed ? `, ${show(b.failed)} failed` : ""}`}</title>
            <rect className="column" x={step * i + 1} width={step - 2} y={height - y(b.value)} height={y(b.value)} />
            {!!b.failed && (
              <rect className="column failed" x={step * i + 1} width={step - 2} y={height - y(total(b))} height={y(b.failed)} />
            )}
          </g>
        ))}
        {line !== undefined && <line x1={0} x2={step * bars.length} y1={height - y(line)} y2={height - y(line)} />}
      </svg>
      <div className="row quiet" aria-hidden="true">
        <span>{bars[0]?.name}</span>
        {line !== undefined && <span>line: {limitName}</span>}
        <span>{bars.at(-1)?.name}</span>
      </div>
      <details>
        <summary>As a table</summary>
        <table>
          <thead>
            <tr>
              <th>{unit}</th>
              <th className="number">{title}</th>
              {failures && <th className="number">Failed</th>}
            </tr>
          </thead>
          <tbody>
            {bars.filter((b) => total(b) > 0).map((b) => (
              <tr key={b.name}>
                <td>{b.name}</td>
                <td className="number">{show(b.value)}</td>
                {failures && <td className="number">{show(b.failed ?? 0)}</td>}
              </tr>
            ))}
          </tbody>
        </table>
      </details>
    </figure>
  );
}

/** A link to a trace, if the server knows where traces are shown. */
export function TraceLink({ trace }: { trace?: string }) {
  const { trace_url } = useSession();
  if (!trace || !trace_url) return null;
  return (
    <a href={trace_url.replaceAll("{trace}", encodeURIComponent(trace))} target="_blank" rel="noreferrer">
      Trace
    </a>
  );
}
