import { type ReactNode, useState } from "react";
import { Action, ErrorBox } from "./ui";

/** What a dialog asks before something is gone, or seen by others. */
export function Confirm({
  text,
  children,
  action,
  cancel,
  confirm,
}: {
  text: string;
  /** What else is to be said. */
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
