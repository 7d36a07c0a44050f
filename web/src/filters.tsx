// Conditions on the metadata of documents: all of them must hold.

import type { Condition } from "./types";
import { Action, Choice, Field } from "./ui";

const operators = ["=", "<", "<=", ">", ">=", "in"];

const values = (c: Condition) => c.values ?? [];

/** The conditions in an address; invalid ones are ignored. */
export function conditionsOf(text: string | null): Condition[] {
  try {
    const all: unknown = JSON.parse(text ?? "[]");
    return Array.isArray(all) ? all.filter(isCondition) : [];
  } catch {
    return [];
  }
}

const isCondition = (c: Condition) =>
  typeof c?.key === "string" &&
  operators.includes(c.op) &&
  Array.isArray(c.values) &&
  c.values.every((v) => typeof v === "string");

/** A condition in words. */
export const inWords = (c: Condition) =>
  c.op === "in" ? `${c.key} in (${values(c).join(", ")})` : `${c.key} ${c.op} ${values(c).join(", ")}`;

export function FilterRows({ conditions, change }: { conditions: Condition[]; change: (c: Condition[]) => void }) {
  const put = (i: number, c: Condition) => change(conditions.map((old, n) => (n === i ? c : old)));
  return (
    <fieldset className="conditions">
      <legend className="hidden">Only documents whose metadata is so</legend>
      {conditions.map((c, i) => (
        // A condition is identified by its index, because its key changes as it is typed.
        <div className="filters" key={i}>
          <Field label="Metadata" placeholder="year" value={c.key} onChange={(key) => put(i, { ...c, key })} />
          <Choice
            label="is"
            value={c.op}
            onChange={(op) => put(i, { ...c, op, values: valuesOf(op, values(c).join(", ")) })}
            options={operators.map((o) => ({ id: o, text: o }))}
          />
          <Field
            label={c.op === "in" ? "one of these, with commas between" : "this"}
            placeholder={c.op === "in" ? "2023, 2024" : "2024"}
            value={values(c).join(",")}
            onChange={(text) => put(i, { ...c, values: valuesOf(c.op, text) })}
          />
          <Action onPress={() => change(conditions.filter((_, n) => n !== i))}>Leave out</Action>
        </div>
      ))}
      <div>
        <Action onPress={() => change([...conditions, { key: "", op: "=", values: [""] }])}>Add a filter</Action>
      </div>
    </fieldset>
  );
}

const valuesOf = (op: string, text: string) => (op === "in" ? text.split(",") : [text]);
