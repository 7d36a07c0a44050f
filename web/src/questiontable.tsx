// Questions in a list, each with a link to its own page.

import { Link } from "wouter";
import { when } from "./text";
import type { Reason } from "./types";
import { StateBadge } from "./ui";

interface Asked {
  id: string;
  question: string;
  state: string;
  plan: string;
  reason?: Reason;
  created_at: string;
}

export function QuestionTable({ of, at }: { of: Asked[]; at: "/jobs" | "/questions" }) {
  return (
    <table className="documents">
      <thead>
        <tr>
          <th>Question</th>
          <th>State</th>
          <th>Plan</th>
          <th>Asked</th>
        </tr>
      </thead>
      <tbody>
        {of.map((q) => (
          <tr key={q.id}>
            <td className="wide">
              <Link href={`${at}/${q.id}`}>{q.question}</Link>
              {q.reason && <div className="reason">{q.reason.message}</div>}
            </td>
            <td>
              <StateBadge state={q.state} />
            </td>
            <td data-label="Plan">{q.plan}</td>
            <td data-label="Asked">{when(q.created_at)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
