import { type ReactNode, useEffect, useLayoutEffect, useRef } from "react";
import { I18nProvider } from "react-aria-components";
import { Link, Redirect, Route, Switch, useLocation } from "wouter";
import { KeysPage, UsagePage } from "./access";
import { AskPage } from "./ask";
import { AuditPage } from "./audit";
import { CollectionsPage } from "./collections";
import { DocumentPage } from "./document";
import { DocumentsPage } from "./documents";
import { ComparisonPage } from "./comparison";
import { EvaluationPage, EvaluationsPage } from "./evaluations";
import { JobPage, JobsPage, QuestionPage } from "./jobs";
import { OperationsPage } from "./operations";
import { PlansPage } from "./plans";
import { PrincipalsPage } from "./principals";
import { SearchPage } from "./search";
import { type Scope, SignedIn, scopesOf, useSession } from "./session";
import { SessionsPage } from "./sessions";
import { SourcePage } from "./source";
import { SourcesPage } from "./sources";
import { TenantsPage } from "./tenants";
import { Action, Empty, PageHead } from "./ui";

export function App() {
  return (
    <I18nProvider locale="en">
      <SignedIn>
        <a className="skip" href="#content">
          Skip to the content
        </a>
        <TopBar />
        <Main>
          <Switch>
            <Route path="/">
              <Redirect to="/collections" replace />
            </Route>
            <Route path="/collections" component={CollectionsPage} />
            <Route path="/collections/:collection">
              {(p) => <DocumentsPage key={p.collection} name={decodeURIComponent(p.collection)} />}
            </Route>
            <Route path="/documents/:document">{(p) => <DocumentPage key={p.document} id={p.document} />}</Route>
            <Route path="/ask">{queries(<AskPage />)}</Route>
            <Route path="/search">{queries(<SearchPage />)}</Route>
            <Route path="/plans">{queries(<PlansPage />)}</Route>
            <Route path="/evaluations">{evaluates(<EvaluationsPage />)}</Route>
            <Route path="/evaluations/:id">{(p) => evaluates(<EvaluationPage key={p.id} id={p.id} />)}</Route>
            <Route path="/evaluations/:id/compare/:against">
              {(p) => evaluates(<ComparisonPage key={`${p.id}.${p.against}`} id={p.id} against={p.against} />)}
            </Route>
            <Route path="/sources">{admins(<SourcesPage />)}</Route>
            <Route path="/sources/:source">
              {(p) => admins(<SourcePage key={p.source} name={decodeURIComponent(p.source)} />)}
            </Route>
            <Route path="/sources/:source/principals">
              {(p) => admins(<PrincipalsPage key={p.source} source={decodeURIComponent(p.source)} />)}
            </Route>
            <Route path="/running">{admins(<OperationsPage />)}</Route>
            <Route path="/tenants">{operators(<TenantsPage />)}</Route>
            <Route path="/sessions" component={SessionsPage} />
            <Route path="/keys">{admins(<KeysPage />)}</Route>
            <Route path="/audit">{admins(<AuditPage />)}</Route>
            <Route path="/usage">{admins(<UsagePage />)}</Route>
            <Route path="/jobs">{queries(<JobsPage />)}</Route>
            <Route path="/jobs/:job">{(p) => queries(<JobPage key={p.job} id={p.job} />)}</Route>
            <Route path="/questions/:question">
              {(p) => queries(<QuestionPage key={p.question} id={p.question} />)}
            </Route>
            <Route>
              <PageHead title="There is no such page" />
              <Empty>
                <Link href="/collections">All collections</Link>
              </Empty>
            </Route>
          </Switch>
        </Main>
      </SignedIn>
    </I18nProvider>
  );
}

/** The content. A new page starts at its top and gets the focus. */
function Main({ children }: { children: ReactNode }) {
  const [path] = useLocation();
  const last = useRef(path);
  const main = useRef<HTMLElement>(null);
  // This must run before the pages' own effects, which may scroll to what they mark.
  useLayoutEffect(() => {
    if (last.current !== path) window.scrollTo(0, 0);
  }, [path]);
  useEffect(() => {
    if (last.current !== path && !main.current?.contains(document.activeElement)) {
      main.current?.focus({ preventScroll: true });
    }
    last.current = path;
  }, [path]);
  return (
    <main id="content" tabIndex={-1} ref={main}>
      {children}
    </main>
  );
}

const queries = (page: ReactNode) => (
  <Only scope="query" somewhere>
    {page}
  </Only>
);
const evaluates = (page: ReactNode) => <Only scope="query">{page}</Only>;
const admins = (page: ReactNode) => <Only scope="admin">{page}</Only>;
const operators = (page: ReactNode) => <Only scope="operator">{page}</Only>;

/** Shows its children only for keys with a scope, in the tenant or anywhere. */
function Only({ scope, somewhere, children }: { scope: Scope; somewhere?: boolean; children: ReactNode }) {
  const { may, maySomewhere } = useSession();
  if (may(scope) || (somewhere && maySomewhere(scope))) return children;
  return <Empty>This needs a key with the {scope} scope.</Empty>;
}

function TopBar() {
  const session = useSession();
  const [path] = useLocation();
  const item = (href: string, text: string) => (
    <li>
      <Link href={href} aria-current={path === href || path.startsWith(`${href}/`) ? "page" : undefined}>
        {text}
      </Link>
    </li>
  );
  return (
    <header className="top">
      <Link href="/collections" className="brand">
        <img src="/icon.svg" alt="" width="24" height="24" />
        <span>Sluice</span>
      </Link>
      <nav aria-label="Main">
        <ul>
          {item("/collections", "Collections")}
          {session.maySomewhere("query") && item("/ask", "Ask")}
          {session.maySomewhere("query") && item("/search", "Search")}
          {session.maySomewhere("query") && item("/jobs", "Jobs")}
          {session.maySomewhere("query") && item("/plans", "Plans")}
          {session.may("query") && item("/evaluations", "Evaluations")}
          {session.may("admin") && item("/sources", "Sources")}
          {session.may("admin") && item("/running", "Running")}
          {session.may("admin") && item("/usage", "Usage")}
          {session.may("admin") && item("/keys", "Keys")}
          {session.may("admin") && item("/audit", "Audit")}
          {session.may("operator") && item("/tenants", "Tenants")}
        </ul>
      </nav>
      <div className="who">
        <Link href="/sessions" className="quiet" title={`Scopes: ${scopesOf(session)}`}>
          {session.name}
        </Link>
        <Action onPress={() => void session.signOut()}>Sign out</Action>
      </div>
    </header>
  );
}
