// Actions on several documents at once.

import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { del, post } from "./api";
import { Confirm } from "./confirm";
import { count, plural } from "./text";
import type { Document as Doc } from "./types";
import { Action, Dialogue, ErrorBox } from "./ui";

const bulkAtOnce = 4;

export function Bulk({ collection, documents, done }: { collection: string; documents: Doc[]; done: () => void }) {
  const cache = useQueryClient();
  const [progress, setProgress] = useState<number | null>(null);
  const [errors, setErrors] = useState<string[]>([]);
  const failed = documents.filter((d) => d.state === "failed");

  const each = async (these: Doc[], act: (d: Doc) => Promise<unknown>) => {
    const left = [...these];
    const wrong: string[] = [];
    let ended = 0;
    setErrors([]);
    setProgress(0);
    const work = async () => {
      for (let d = left.shift(); d; d = left.shift()) {
        try {
          await act(d);
        } catch (e) {
          wrong.push(`${d.external_id}: ${(e as Error).message}`);
        }
        setProgress(++ended);
      }
    };
    await Promise.all(Array.from({ length: bulkAtOnce }, work));
    await cache.invalidateQueries({ queryKey: ["collection", collection] });
    await cache.invalidateQueries({ queryKey: ["documents", collection] });
    setProgress(null);
    setErrors(wrong);
    if (wrong.length === 0) done();
  };
  return (
    <div className="bulk">
      <div className="row">
        <p role="status">
          {progress === null
            ? `${plural(documents.length, "document")} selected`
            : `${progress} of ${documents.length} done`}
        </p>
        <div className="actions">
          {failed.length > 0 && (
            <Action
              isDisabled={progress !== null}
              onPress={() => void each(failed, (d) => post(`/v1/documents/${d.id}/retry`))}
            >
              Retry {count(failed.length)} failed
            </Action>
          )}
          <Dialogue
            button="Delete"
            look="danger"
            title={`Delete ${plural(documents.length, "document")}?`}
            isDisabled={progress !== null}
          >
            {(close) => (
              <Confirm
                text="They are hidden at once and purged soon after."
                action="Delete"
                cancel={close}
                confirm={async () => {
                  close();
                  await each(documents, (d) => del(`/v1/documents/${d.id}`));
                }}
              />
            )}
          </Dialogue>
          <Action onPress={done} isDisabled={progress !== null}>
            Select none
          </Action>
        </div>
      </div>
      {errors.length > 0 && <ErrorBox error={new Error(errors.slice(0, 5).join("; "))} />}
    </div>
  );
}
