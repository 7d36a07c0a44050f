// The form for creating and changing a source. The API returns the drivers and their settings.

import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Checkbox, FieldError, FileTrigger, Form, Label, Text, TextArea, TextField } from "react-aria-components";
import { useLocation } from "wouter";
import { APIError, call, get, post } from "./api";
import { useCollections } from "./question";
import { follows, sourcePath } from "./sources";
import type { Source, SourceDriver, SourceDrivers, SourceField } from "./types";
import { Action, Choice, ErrorBox, Field, Loading } from "./ui";

// The API checks the forms: validationBehavior "aria" allows submitting again while a field is
// marked as wrong.

/** The API's error about a part of the request, such as body.settings.path; errors of elements are shown with their list. */
function wrongAt(error: Error | null, at: string): string | undefined {
  if (!(error instanceof APIError)) return undefined;
  return error.fields.find((f) => f.location === at || f.location?.startsWith(`${at}[`))?.message;
}

function useDrivers() {
  return useQuery({
    queryKey: ["source-drivers"],
    queryFn: async ({ signal }) => (await get<SourceDrivers>("/v1/source-drivers", signal)).items ?? [],
  });
}

/** Settings as typed; undefined: unchanged. */
type Settings = Record<string, string | undefined>;

/** The rules and the schedule of a source, as typed. */
interface Rules {
  include: string;
  exclude: string;
  labels: string;
  every: string;
  max_shorter: string;
  max_bytes: string;
  max_items: string;
}

const usual: Rules = { include: "", exclude: "", labels: "", every: "60", max_shorter: "20", max_bytes: "0", max_items: "0" };

const lines = (text: string) => text.split("\n").map((l) => l.trim()).filter(Boolean);

/** The rules in the API's form. */
function rulesOf(r: Rules, followed: boolean) {
  const whole = (name: string, text: string) => {
    const n = Number(text.replace(/[ ,_]/g, "") || Number.NaN);
    if (!Number.isInteger(n)) throw new APIError({ detail: "a number is wrong", errors: [{ location: `body.${name}`, message: "a whole number" }] });
    return n;
  };
  return {
    include: lines(r.include),
    exclude: lines(r.exclude),
    labels: followed ? undefined : lines(r.labels),
    every: whole("every", r.every),
    max_shorter: whole("max_shorter", r.max_shorter),
    max_bytes: whole("max_bytes", r.max_bytes),
    max_items: whole("max_items", r.max_items),
  };
}

export function NewSource({ close }: { close: () => void }) {
  const cache = useQueryClient();
  const [, go] = useLocation();
  const collections = useCollections();
  const drivers = useDrivers();
  const [name, setName] = useState("");
  const [collection, setCollection] = useState("");
  const [kind, setKind] = useState("");
  const [settings, setSettings] = useState<Settings>({});
  const [rules, setRules] = useState(usual);
  const [paused, setPaused] = useState(false);
  const [error, setError] = useState<Error | null>(null);
  const [busy, setBusy] = useState(false);
  const driver = drivers.data?.find((d) => d.name === kind) ?? (drivers.data?.length === 1 ? drivers.data[0] : undefined);
  const followed = settings.permissions === "follow";

  const submit = async () => {
    setBusy(true);
    setError(null);
    try {
      const body = { name, collection, driver: driver?.name ?? "", settings, paused, ...rulesOf(rules, followed) };
      const made = await post<Source>("/v1/sources", body);
      close();
      go(sourcePath(made.name));
      await cache.invalidateQueries({ queryKey: ["sources"] });
    } catch (e) {
      setError(e as Error);
      setBusy(false);
    }
  };
  if (collections.isPending || drivers.isPending) return <Loading />;
  if (!collections.data || !drivers.data) return <ErrorBox error={collections.error ?? drivers.error} />;
  if (drivers.data.length === 0) {
    return <p>No source-worker has run yet, so there is no kind of source to choose. Start one.</p>;
  }
  if (collections.data.length === 0) return <p>There is no collection yet that its documents could come to. Make one first.</p>;
  return (
    <Form
      validationBehavior="aria"
      onSubmit={(e) => {
        e.preventDefault();
        void submit();
      }}
    >
      <Field
        label="Name"
        hint="Letters, digits, dots, dashes and underscores. It doesn't change."
        error={wrongAt(error, "body.name")}
        value={name}
        onChange={setName}
        isRequired
        autoFocus
      />
      <ChoiceField
        label="Collection"
        value={collection}
        onChange={setCollection}
        options={collections.data.map((c) => ({ id: c.name, text: c.name }))}
        error={wrongAt(error, "body.collection")}
      />
      <ChoiceField
        label="Kind"
        value={driver?.name ?? ""}
        onChange={(k) => {
          setKind(k);
          setSettings({});
        }}
        options={drivers.data.map((d) => ({
          id: d.name,
          text: d.name,
          detail: d.running ? d.summary : `${d.summary} No source-worker with it runs now.`,
        }))}
        error={wrongAt(error, "body.driver")}
      />
      {driver && <DriverSettings driver={driver} values={settings} change={setSettings} error={error} />}
      <RuleFields rules={rules} change={setRules} followed={followed} error={error} />
      <Checkbox className="tick" isSelected={paused} onChange={setPaused}>
        <span className="box" aria-hidden="true" />
        Paused at first <span className="quiet">so that a preview can be looked at</span>
      </Checkbox>
      <ErrorBox error={error} />
      <div className="actions">
        <Action onPress={close}>Cancel</Action>
        <Action type="submit" look="primary" isPending={busy} isDisabled={!driver || !collection}>
          Make it
        </Action>
      </div>
    </Form>
  );
}

/** A source's rules as initial values of the form. */
const typed = (s: Source): Rules => ({
  include: (s.include ?? []).join("\n"),
  exclude: (s.exclude ?? []).join("\n"),
  labels: (s.labels ?? []).join("\n"),
  every: String(s.every),
  max_shorter: String(s.max_shorter),
  max_bytes: String(s.max_bytes),
  max_items: String(s.max_items),
});

/** What differs from the earlier rules. */
const differing = (now: object, before: Record<string, unknown>) =>
  Object.fromEntries(Object.entries(now).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(before[name])));

export function ChangeSource({ source, close }: { source: Source; close: () => void }) {
  const cache = useQueryClient();
  const drivers = useDrivers();
  // The source is reloaded meanwhile; the form keeps the state that it started from.
  const [s] = useState(source);
  const [settings, setSettings] = useState<Settings>(s.settings);
  const [rules, setRules] = useState(typed(s));
  const [error, setError] = useState<Error | null>(null);
  const [busy, setBusy] = useState(false);
  const driver = drivers.data?.find((d) => d.name === s.driver);
  const followed = follows(s.settings);
  const submit = async () => {
    setBusy(true);
    setError(null);
    try {
      const rest = differing(rulesOf(rules, followed), rulesOf(typed(s), followed));
      const now = await call<Source>("PATCH", `/v1/sources/${s.id}`, { settings: differing(settings, s.settings), ...rest });
      cache.setQueryData(["source", s.name], now);
      close();
      await cache.invalidateQueries({ queryKey: ["source", s.name] });
    } catch (e) {
      setError(e as Error);
      setBusy(false);
    }
  };
  if (drivers.isPending) return <Loading />;
  if (!drivers.data) return <ErrorBox error={drivers.error} />;
  return (
    <Form
      validationBehavior="aria"
      onSubmit={(e) => {
        e.preventDefault();
        void submit();
      }}
    >
      <p className="quiet">A run that is under way ends, and the next one lists everything.</p>
      {driver && <DriverSettings driver={driver} of={s} values={settings} change={setSettings} error={error} />}
      <RuleFields rules={rules} change={setRules} followed={followed} error={error} />
      <ErrorBox error={error} />
      <div className="actions">
        <Action onPress={close}>Cancel</Action>
        <Action type="submit" look="primary" isPending={busy}>
          Save
        </Action>
      </div>
    </Form>
  );
}

/** A choice with its error. */
function ChoiceField({ error, hint, ...choice }: Parameters<typeof Choice>[0] & { error?: string; hint?: string }) {
  return (
    <div>
      <Choice {...choice} />
      {error !== undefined && <p className="wrong">{error}</p>}
      {hint && <p className="quiet">{hint}</p>}
    </div>
  );
}

/** The settings of a driver with their descriptions; when a source is changed, with its values. */
function DriverSettings({
  driver,
  of,
  values,
  change,
  error,
}: {
  driver: SourceDriver;
  of?: Source;
  values: Settings;
  change: (s: Settings) => void;
  error: Error | null;
}) {
  return (
    <>
      {driver.fields?.map((f) => {
        if (of && f.name === "permissions") return null; // it cannot be changed
        const wrong = wrongAt(error, `body.settings.${f.name}`);
        const set = (value: string | undefined) => change({ ...values, [f.name]: value });
        if (f.secret) {
          return <SecretField key={f.name} field={f} value={values[f.name]} there={of?.secrets?.includes(f.name) ?? false} wrong={wrong} change={set} />;
        }
        if (f.values?.length) {
          return (
            <ChoiceField
              key={f.name}
              label={f.name}
              hint={f.summary}
              error={wrong}
              value={values[f.name] ?? ""}
              onChange={set}
              options={f.values.map((v) => ({ id: v, text: v }))}
            />
          );
        }
        return <Field key={f.name} label={f.name} hint={f.summary} error={wrong} value={values[f.name] ?? ""} onChange={set} isRequired={f.required} />;
      })}
    </>
  );
}

/** A secret is typed, or read from a file, which a key of several lines needs. An existing secret is never shown. */
function SecretField({
  field: f,
  value,
  there,
  wrong,
  change,
}: {
  field: SourceField;
  value: string | undefined;
  there: boolean;
  wrong?: string;
  change: (value: string | undefined) => void;
}) {
  const [file, setFile] = useState("");
  const gone = there && value === "";
  const takeAway = () => {
    setFile("");
    change("");
  };
  const hint = `${f.summary}${there ? (gone ? " It is taken away." : " It is set; leave this empty to keep it.") : ""}`;
  return (
    <div className="field">
      {file ? (
        <p>
          <b>{f.name}</b> from {file}
        </p>
      ) : (
        <Field
          label={f.name}
          type="password"
          hint={hint}
          error={wrong}
          value={value ?? ""}
          onChange={(v) => change(v || undefined)}
          isRequired={f.required && !there}
        />
      )}
      <div className="actions">
        <FileTrigger
          onSelect={(chosen) => {
            const one = chosen?.[0];
            if (!one) return;
            void one.text().then((text) => {
              change(text.replace(/[\r\n]+$/, ""));
              setFile(one.name);
            });
          }}
        >
          <Action aria-label={`${f.name} from a file`}>From a file…</Action>
        </FileTrigger>
        {there && !f.required && !gone && <Action aria-label={`Take ${f.name} away`} onPress={takeAway}>Take it away</Action>}
      </div>
      {file && wrong !== undefined && <p className="wrong">{wrong}</p>}
    </div>
  );
}

function Lines({ label, hint, error, value, onChange }: { label: string; hint: string; error?: string; value: string; onChange: (v: string) => void }) {
  return (
    <TextField className="field" value={value} onChange={onChange} isInvalid={error !== undefined}>
      <Label>{label}</Label>
      <TextArea rows={2} />
      {error !== undefined && <FieldError className="wrong">{error}</FieldError>}
      <Text slot="description" className="quiet">
        {hint}
      </Text>
    </TextField>
  );
}

function RuleFields({
  rules: r,
  change,
  followed,
  error,
}: {
  rules: Rules;
  change: (r: Rules) => void;
  /** The source follows permissions, so documents get no other labels. */
  followed: boolean;
  error: Error | null;
}) {
  const field = (name: keyof Rules, label: string, hint: string) => (
    <Field label={label} hint={hint} error={wrongAt(error, `body.${name}`)} value={r[name]} onChange={(v) => change({ ...r, [name]: v })} />
  );
  const list = (name: keyof Rules, label: string, hint: string) => (
    <Lines label={label} hint={hint} error={wrongAt(error, `body.${name}`)} value={r[name]} onChange={(v) => change({ ...r, [name]: v })} />
  );
  return (
    <>
      {field("every", "Minutes between two runs", "0: it runs when somebody asks.")}
      {list("include", "Include", "Patterns of paths, one a line, as *.pdf or handbook/**. All items when there are none.")}
      {list("exclude", "Exclude", "Patterns of paths that are left out, one a line.")}
      {!followed && list("labels", "Labels", "One a line. Only keys with one of them as a group see its documents.")}
      {field("max_shorter", "Per cent that may be gone at once", "When more is gone, somebody is asked before it is deleted here; 100: nobody is asked.")}
      {field("max_bytes", "Largest item, in bytes", "0: what the worker allows.")}
      {field("max_items", "Most items", "0: any number.")}
    </>
  );
}
