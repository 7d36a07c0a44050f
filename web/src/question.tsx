// What asking and searching share: the question, the collection and the plan, kept in the address.

import { useQuery } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { Form, Label, TextArea, TextField } from "react-aria-components";
import { useSearchParams } from "wouter";
import { all } from "./api";
import { ChoiceRows, choicesOf } from "./choices";
import { conditionsOf, FilterRows } from "./filters";
import type { Collection, Condition, Plan } from "./types";
import { Action, Choice, Empty, ErrorBox, Loading } from "./ui";

export interface Asked {
  collection: string;
  query: string;
  plan?: string;
  filter?: Condition[];
  choices?: string[];
}

const noPlan = "default";

export function usePlans() {
  return useQuery({
    queryKey: ["plans"],
    queryFn: ({ signal }) => all<Plan>("/v1/plans", 2000, signal),
    staleTime: 300_000,
  });
}

export function useCollections() {
  return useQuery({
    queryKey: ["collections", "all"],
    queryFn: ({ signal }) => all<Collection>("/v1/collections", 2000, signal),
  });
}

export function QuestionForm({
  label,
  busy,
  submit,
  chooses = false,
  error,
  children,
}: {
  label: string;
  busy: boolean;
  submit: (q: Asked) => void;
  /** The answer may be one of several choices. */
  chooses?: boolean;
  /** For what was sent last. */
  error?: Error | null;
  children?: ReactNode;
}) {
  const [params, setParams] = useSearchParams();
  const [text, setText] = useState(params.get("q") ?? "");
  const collections = useCollections();
  const plans = usePlans();
  const put = (name: string, value: string) =>
    setParams(
      (old) => {
        if (value) old.set(name, value);
        else old.delete(name);
        return old;
      },
      { replace: true },
    );
  if (collections.isPending || plans.isPending) return <Loading />;
  if (!collections.data || !plans.data) {
    return (
      <ErrorBox
        error={collections.error ?? plans.error}
        retry={() => {
          void collections.refetch();
          void plans.refetch();
        }}
      />
    );
  }
  // A link may have the collection's id.
  const wanted = params.get("collection");
  const collection = (wanted && collections.data.find((c) => c.id === wanted)?.name) ?? wanted ?? collections.data[0]?.name ?? "";
  const filter = conditionsOf(params.get("filter"));
  const choices = chooses ? choicesOf(params.get("choices")) : [];
  const plan = params.get("plan") ?? noPlan;
  if (collections.data.length === 0) return <Empty>There is no collection to ask about yet.</Empty>;

  const ready = text.trim() !== "" && collection !== "" && !busy;
  const send = () => {
    if (!ready) return;
    put("q", text.trim());
    submit({
      collection,
      query: text.trim(),
      plan: plan === noPlan ? undefined : plan,
      filter: filter.length > 0 ? filter.map((c) => ({ ...c, key: c.key.trim() })) : undefined,
      choices: choices.length > 0 ? choices.map((c) => c.trim()) : undefined,
    });
  };
  const usual = plans.data.find((p) => p.default)?.name;
  return (
    <Form
      className="question"
      onSubmit={(e) => {
        e.preventDefault();
        send();
      }}
    >
      <TextField className="field" value={text} onChange={setText} autoFocus>
        <Label>Question</Label>
        <TextArea
          rows={3}
          maxLength={20000}
          onKeyDown={(e) => {
            if (e.key === "Enter" && !e.shiftKey) {
              e.preventDefault();
              send();
            }
          }}
        />
      </TextField>
      <div className="filters">
        <Choice
          label="Collection"
          value={collection}
          onChange={(v) => put("collection", v)}
          options={collections.data.map((c) => ({ id: c.name, text: c.name, detail: c.description }))}
        />
        <Choice
          label="Plan"
          value={plan}
          onChange={(v) => put("plan", v)}
          options={[
            { id: noPlan, text: usual ? `default (${usual})` : "default" },
            ...plans.data.map((p) => ({ id: p.name, text: p.name, detail: p.description })),
          ]}
        />
        {children}
        <Action type="submit" look="primary" isDisabled={!ready}>
          {label}
        </Action>
      </div>
      {chooses && (
        <ChoiceRows
          choices={choices}
          error={error}
          change={(c) => put("choices", c.length > 0 ? JSON.stringify(c) : "")}
        />
      )}
      <FilterRows conditions={filter} change={(f) => put("filter", f.length > 0 ? JSON.stringify(f) : "")} />
    </Form>
  );
}
