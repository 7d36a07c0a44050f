// Choices for an answer.

import { useId } from "react";
import { APIError } from "./api";
import { Action, Field } from "./ui";

/** The maximum number in the API. */
const most = 26;

/** The choices in an address; anything but a list of texts is ignored. */
export function choicesOf(text: string | null): string[] {
  try {
    const all: unknown = JSON.parse(text ?? "[]");
    return Array.isArray(all) && all.every((c) => typeof c === "string") ? all : [];
  } catch {
    return [];
  }
}

/** The server's errors about each choice and about the list. */
function wrongWith(error: Error | null | undefined): { of: Map<number, string>; list: string } {
  const of = new Map<number, string>();
  let list = "";
  for (const e of error instanceof APIError ? error.fields : []) {
    const place = /^body\.choices(?:\[(\d+)\])?$/.exec(e.location ?? "");
    if (place?.[1]) of.set(Number(place[1]), e.message);
    else if (place) list = e.message;
  }
  return { of, list };
}

export function ChoiceRows({
  choices,
  change,
  error,
}: {
  choices: string[];
  change: (c: string[]) => void;
  error?: Error | null;
}) {
  const said = useId();
  const wrong = wrongWith(error);
  return (
    <fieldset className="conditions" aria-describedby={wrong.list ? said : undefined}>
      <legend className="hidden">What to choose the answer from</legend>
      {choices.map((c, i) => (
        // A choice is identified by its index, because its text changes as it is typed.
        <div className="filters" key={i}>
          <Field
            label={`Choice ${i + 1}`}
            value={c}
            error={wrong.of.get(i)}
            onChange={(text) => change(choices.map((old, n) => (n === i ? text : old)))}
          />
          <Action
            aria-label={`Leave out choice ${i + 1}`}
            onPress={() => change(choices.filter((_, n) => n !== i))}
          >
            Leave out
          </Action>
        </div>
      ))}
      {wrong.list && (
        <p className="wrong" id={said}>
          Choices: {wrong.list}
        </p>
      )}
      {choices.length < most && (
        <div>
          <Action onPress={() => change(choices.length === 0 ? ["", ""] : [...choices, ""])}>
            {choices.length === 0 ? "Give choices" : "Add a choice"}
          </Action>
        </div>
      )}
    </fieldset>
  );
}
