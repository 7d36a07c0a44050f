import { useState } from "react";
import { Action, ErrorBox } from "./ui";

/** What a dialog asks before something is gone. */
export function Confirm({
  text,
  action,
  cancel,
  confirm,
}: {
  text: string;
  action: string;
  cancel: () => void;
  confirm: () => Promise<void>;
}) {
  const [error, setError] = useState<Error | null>(null);
  const [busy, setBusy] = useState(false);
  return (
    <>
      <p>{text}</p>
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
