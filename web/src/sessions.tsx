// Sessions of people: one's own, and for admins everybody's.

import { useInfiniteQuery, useQueryClient } from "@tanstack/react-query";
import { del, get, type Page, withQuery } from "./api";
import { Confirm } from "./confirm";
import { scopesOf, useSession } from "./session";
import { when } from "./text";
import type { PersonSession } from "./types";
import { Action, Dialogue, Empty, ErrorBox, Loading, PageHead } from "./ui";

export function SessionsPage() {
  const session = useSession();
  const list = useInfiniteQuery({
    queryKey: ["sessions"],
    queryFn: ({ pageParam, signal }) =>
      get<Page<PersonSession>>(withQuery("/v1/sessions", { limit: 50, cursor: pageParam }), signal),
    initialPageParam: "",
    getNextPageParam: (page) => page.next,
  });
  const sessions = list.data?.pages.flatMap((p) => p.items) ?? [];
  return (
    <>
      <PageHead title="Sessions" />
      <p className="quiet">Sessions of people who signed in at the provider, listed for 30 days after they end.</p>
      <p>You may: {scopesOf(session) || "nothing"}.</p>
      <ErrorBox error={list.error} retry={() => void list.refetch()} />
      {list.isPending && <Loading />}
      {list.isSuccess && sessions.length === 0 && <Empty>Nobody signed in at a provider.</Empty>}
      {sessions.length > 0 && (
        <table className="documents">
          <thead>
            <tr>
              <th>Who</th>
              <th>From</th>
              <th>Browser</th>
              <th>Begun</th>
              <th>Last used</th>
              <th>Ends</th>
              <th>
                <span className="hidden">End</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {sessions.map((s) => (
              <SessionRow key={s.id} session={s} />
            ))}
          </tbody>
        </table>
      )}
      {list.hasNextPage && (
        <Action isPending={list.isFetchingNextPage} onPress={() => void list.fetchNextPage()}>
          Earlier ones
        </Action>
      )}
    </>
  );
}

function SessionRow({ session: s }: { session: PersonSession }) {
  const cache = useQueryClient();
  const { signOut } = useSession();
  const over = s.ended_at !== undefined || new Date(s.expires_at) <= new Date();
  return (
    <tr>
      <td className="wide">
        {s.name} {s.current && <span className="badge">this one</span>}
      </td>
      <td data-label="From">{s.address}</td>
      <td data-label="Browser">{s.agent}</td>
      <td data-label="Begun">{when(s.created_at)}</td>
      <td data-label="Last used">{s.last_used_at ? when(s.last_used_at) : "never"}</td>
      <td data-label="Ends">{s.ended_at ? `ended ${when(s.ended_at)}` : when(s.expires_at)}</td>
      <td>
        {!over && (
          <Dialogue button="End" title={`End a session of ${s.name}?`} look="danger">
            {(close) => (
              <Confirm
                text={s.current ? "You will have to sign in again." : "They will have to sign in again, in that browser, within seconds."}
                action="End it"
                cancel={close}
                confirm={async () => {
                  if (s.current) {
                    await signOut();
                    return;
                  }
                  await del(`/v1/sessions/${s.id}`);
                  close();
                  await cache.invalidateQueries({ queryKey: ["sessions"] });
                }}
              />
            )}
          </Dialogue>
        )}
      </td>
    </tr>
  );
}
