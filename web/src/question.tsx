// What asking and searching share: the question, the collection and the plan, kept in the address.

import { useQuery } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { Form, Label, TextArea, TextField } from "react-aria-components";
import { useSearchParams } from "wouter";
import { all, get } from "./api";
import type { Collection, Page, Plan } from "./types";
import { Action, Choice, Empty, ErrorBox, Loading } from "./ui";

export interface Asked {
  collection: string;
  query: string;
  plan?: string;
}

const noPlan = "default";

export function usePlans() {
  return useQuery({
    queryKey: ["plans"],
    queryFn: async ({ signal }) => (await get<Page<Plan>>("/v1/plans", signal)).items,
    staleTime: 300_000,
  });
}

export function QuestionForm({
  label,
  busy,
  submit,
  children,
}: {
  label: string;
  busy: boolean;
  submit: (q: Asked) => void;
  children?: ReactNode;
}) {
  const [params, setParams] = useSearchParams();
  const [text, setText] = useState(params.get("q") ?? "");
  const collections = useQuery({
    queryKey: ["collections", "all"],
    queryFn: ({ signal }) => all<Collection>("/v1/collections", 2000, signal),
  });
  const plans = usePlans();
  const put = (name: string, value: string) =>
    setParams(
      (old) => {
        old.set(name, value);
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
  const collection = params.get("collection") ?? collections.data[0]?.name ?? "";
  const plan = params.get("plan") ?? noPlan;
  if (collections.data.length === 0) return <Empty>There is no collection to ask about yet.</Empty>;

  const ready = text.trim() !== "" && collection !== "" && !busy;
  const send = () => {
    if (!ready) return;
    put("q", text.trim());
    submit({ collection, query: text.trim(), plan: plan === noPlan ? undefined : plan });
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
          maxLength={4000}
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
    </Form>
  );
}
