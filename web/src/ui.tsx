// Basic elements of all pages.

import { type ReactNode, useEffect, useId } from "react";
import {
  Button,
  type ButtonProps,
  Dialog,
  DialogTrigger,
  FieldError,
  Heading,
  Input,
  Label,
  ListBox,
  ListBoxItem,
  Modal,
  ModalOverlay,
  Popover,
  Select,
  SelectValue,
  Text,
  TextField,
} from "react-aria-components";

export function Action({ look = "plain", ...props }: ButtonProps & { look?: "plain" | "primary" | "danger" }) {
  return <Button {...props} className={`action ${look}`} />;
}

export function Loading() {
  return (
    <p className="quiet" role="status">
      Loading…
    </p>
  );
}

export function ErrorBox({ error, retry }: { error: Error | null | undefined; retry?: () => void }) {
  if (!error) return null;
  return (
    <div className="error" role="alert">
      <span>{sentence(error.message)}</span>
      {retry && <Action onPress={retry}>Try again</Action>}
    </div>
  );
}

/** A problem from the API, whose text starts in lower case, as a sentence. */
export const sentence = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);

export function Empty({ children }: { children: ReactNode }) {
  return <div className="empty">{children}</div>;
}

/** The state of a document or a job, as a word with a colour. */
export function StateBadge({ state }: { state: string }) {
  return <span className={`badge ${state}`}>{state}</span>;
}

/** The page's heading with its actions; also sets the title of the window. */
export function PageHead({ title, children, above }: { title: string; children?: ReactNode; above?: ReactNode }) {
  useEffect(() => {
    document.title = `${title} · Sluice`;
  }, [title]);
  return (
    <header className="page-head">
      <div>
        {above && <div className="above">{above}</div>}
        <h1>{title}</h1>
      </div>
      {children && <div className="actions">{children}</div>}
    </header>
  );
}

export function Field({
  label,
  hint,
  error,
  value,
  onChange,
  ...rest
}: {
  label: string;
  hint?: string;
  error?: string;
  value: string;
  onChange: (value: string) => void;
  isRequired?: boolean;
  placeholder?: string;
  autoFocus?: boolean;
  type?: "text" | "password";
  /** Suggested values; others can be typed. */
  suggestions?: { value: string; text: string }[];
}) {
  const { placeholder, suggestions, ...field } = rest;
  const list = useId();
  return (
    <TextField className="field" value={value} onChange={onChange} isInvalid={error !== undefined} {...field}>
      <Label>{label}</Label>
      <Input placeholder={placeholder} list={suggestions?.length ? list : undefined} />
      {!!suggestions?.length && (
        <datalist id={list}>
          {suggestions.map((v) => (
            <option key={v.value} value={v.value}>
              {v.text}
            </option>
          ))}
        </datalist>
      )}
      {error !== undefined && <FieldError className="wrong">{error}</FieldError>}
      {hint && (
        <Text slot="description" className="quiet">
          {hint}
        </Text>
      )}
    </TextField>
  );
}

export interface Option {
  id: string;
  text: string;
  detail?: string;
}

export function Choice({
  label,
  value,
  onChange,
  options,
}: {
  label: string;
  value: string;
  onChange: (value: string) => void;
  options: Option[];
}) {
  return (
    <Select className="field" value={value} onChange={(key) => onChange(String(key ?? ""))}>
      <Label className="label">{label}</Label>
      <Button className="action select">
        <SelectValue>{({ selectedText }) => selectedText || "Choose…"}</SelectValue>
        <span aria-hidden="true">▾</span>
      </Button>
      <Popover className="popover">
        <ListBox className="list-box" items={options}>
          {(o) => (
            <ListBoxItem id={o.id} textValue={o.text}>
              <Text slot="label">{o.text}</Text>
              {o.detail && (
                <Text slot="description" className="quiet">
                  {o.detail}
                </Text>
              )}
            </ListBoxItem>
          )}
        </ListBox>
      </Popover>
    </Select>
  );
}

/** A dialog with the button that opens it. Its content gets a function that closes it. */
export function Dialogue({
  button,
  title,
  look,
  isDisabled,
  children,
}: {
  button: string;
  title: string;
  look?: "plain" | "primary" | "danger";
  isDisabled?: boolean;
  children: (close: () => void) => ReactNode;
}) {
  return (
    <DialogTrigger>
      <Action look={look} isDisabled={isDisabled}>
        {button}
      </Action>
      <ModalOverlay className="overlay" isDismissable>
        <Modal className="modal">
          <Dialog>
            {({ close }) => (
              <>
                <Heading slot="title">{title}</Heading>
                {children(close)}
              </>
            )}
          </Dialog>
        </Modal>
      </ModalOverlay>
    </DialogTrigger>
  );
}
