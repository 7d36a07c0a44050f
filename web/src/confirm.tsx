import { type ReactNode, useState } from "react";
import { Action, ErrorBox } from "./ui";

/** A dialog that asks before something is deleted or shown to others. */
export function Confirm({
  text,
  children,
  action,
  cancel,
  confirm,
}: {
  text: string;
  /** Additional text. */
  children?: ReactNode;
  action: string;
  cancel: () => void;
  confirm: () => Promise<void>;
}) {
  const [error, setError] = useState<Error | null>(null);
  const [busy, setBusy] = useState(false);
  return (
    <>
      <p>{text}</p>
      {children}
      <ErrorBox error={error} />
      <div className="actions">
        <Action onPress={cancel} autoFocus>
          Cancel
        </Action>
        <Action
          look="danger"
          isPending={busy}
          onPress={() => {
            setBusy(true);
            confirm().catch((e) => {
              setError(e as Error);
              setBusy(false);
            });
          }}
        >
          {action}
        </Action>
      </div>
    </>
  );
}
