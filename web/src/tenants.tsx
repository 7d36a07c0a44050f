import { PageHead } from "./ui";

export function TenantsPage() {
  return <PageHead title="Tenants" />;
}
