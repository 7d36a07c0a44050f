import { PageHead } from "./ui";

export function EvaluationsPage() {
  return <PageHead title="Evaluations" />;
}
