import { PageHead } from "./ui";

export function PlansPage() {
  return <PageHead title="Plans" />;
}
