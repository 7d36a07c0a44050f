// The rating of an answer by its reader.

import "./evaluations.css";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Form, Label, TextArea, TextField, ToggleButton } from "react-aria-components";
import { call, del, get, type Page, withQuery } from "./api";
import { useSession } from "./session";
import { Action, ErrorBox } from "./ui";

type Opinion = "up" | "down";

interface Rated {
  rating: Opinion;
  comment?: string;
}

/** Thumbs up or down for the answer of a question, and why. */
export function Rating({ question }: { question: string }) {
  const cache = useQueryClient();
  const session = useSession();
  const key = ["rating", question, session.key_id];
  const own = useQuery({
    queryKey: key,
    queryFn: async ({ signal }) =>
      (await get<Page<Rated>>(withQuery("/v1/ratings", { question, own: "true", limit: 1 }), signal)).items[0] ?? null,
  });
  const [comment, setComment] = useState<string | null>(null); // null: as stored
  const [said, setSaid] = useState("");
  const [error, setError] = useState<Error | null>(null);
  const [busy, setBusy] = useState(false);
  const rated = own.data;
  const path = `/v1/questions/${question}/rating`;

  const send = async (rating: Opinion | null, text: string) => {
    setBusy(true);
    setError(null);
    setSaid("");
    try {
      if (rating === null) {
        await del(path);
        cache.setQueryData(key, null);
        setComment(null);
        setSaid("Your rating is taken back.");
      } else {
        const stored = await call<Rated>("PUT", path, { rating, comment: text });
        cache.setQueryData(key, stored);
        setComment(null);
        setSaid("Your rating is kept. Thank you.");
      }
    } catch (e) {
      setError(e as Error);
    }
    setBusy(false);
  };
  const text = comment ?? rated?.comment ?? "";
  const thumb = (opinion: Opinion, label: string) => (
    <ToggleButton
      className="action"
      isSelected={rated?.rating === opinion}
      // It is rendered from the start, so that nothing below moves when the rating arrives.
      isDisabled={own.isPending}
      // It is not disabled meanwhile, because it would lose the focus.
      onChange={(on) => void (busy || send(on ? opinion : null, text))}
    >
      <Thumb down={opinion === "down"} /> {label}
    </ToggleButton>
  );
  return (
    <section className="rating" aria-label="Your rating">
      <div className="actions" role="group" aria-label="Rate this answer">
        {thumb("up", "Good answer")}
        {thumb("down", "Bad answer")}
      </div>
      {rated && (
        <Form
          onSubmit={(e) => {
            e.preventDefault();
            void send(rated.rating, text.trim());
          }}
        >
          <TextField className="field" value={text} onChange={setComment} maxLength={2000}>
            <Label>{rated.rating === "up" ? "What was good about it?" : "What is wrong with it?"}</Label>
            <TextArea rows={2} />
          </TextField>
          <div className="actions">
            <Action type="submit" isPending={busy} isDisabled={text.trim() === (rated.comment ?? "")}>
              Save the comment
            </Action>
          </div>
        </Form>
      )}
      <p className="quiet" role="status">
        {said}
      </p>
      <ErrorBox error={error ?? own.error} />
    </section>
  );
}

function Thumb({ down }: { down: boolean }) {
  return (
    <svg className="thumb" viewBox="0 0 22 22" width="18" height="18" aria-hidden="true">
      <path
        transform={down ? "rotate(180 11 11)" : undefined}
        d="M1.5 9.5h4v10h-4zM7.5 10 11.6 2a2 2 0 0 1 2.2 2.3L13 8.5h5.4a2 2 0 0 1 2 2.4l-1.4 7a2 2 0 0 1-2 1.6H7.5z"
      />
    </svg>
  );
}
