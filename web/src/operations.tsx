import { PageHead } from "./ui";

export function OperationsPage() {
  return <PageHead title="Running" />;
}
