import { useEffect } from "react";
import { DropZone, FileTrigger, Label, ProgressBar, Text } from "react-aria-components";
import { Link } from "wouter";
import { plural } from "./text";
import { Action, StateBadge } from "./ui";
import { add, clearDone, type Item, look, over, useUploads } from "./uploads";

/** Accepts dropped or selected files and folders, and shows the state of each. */
export function Upload({ collection }: { collection: string }) {
  const items = useUploads(collection);
  useEffect(look, []);
  return (
    <section aria-label="Upload">
      <DropZone
        className="drop"
        getDropOperation={() => "copy"}
        onDrop={(e) => {
          void dropped(e.items as unknown as Dropped[]).then((files) => add(collection, files));
        }}
      >
        <Text slot="label">Drop files or folders here, or choose</Text>
        <FileTrigger allowsMultiple onSelect={(list) => add(collection, chosen(list))}>
          <Action>Files…</Action>
        </FileTrigger>
        <FileTrigger acceptDirectory onSelect={(list) => add(collection, chosen(list))}>
          <Action>A folder…</Action>
        </FileTrigger>
      </DropZone>
      {items.length > 0 && <Progress items={items} clear={() => clearDone(collection)} />}
    </section>
  );
}

const shownMost = 200;

function Progress({ items, clear }: { items: Item[]; clear: () => void }) {
  const done = items.filter(over).length;
  const failed = items.filter((i) => i.state === "failed" || i.state === "broken").length;
  // Uploads in progress first, then failed ones.
  const rank = (i: Item) => (over(i) ? (i.state === "failed" || i.state === "broken" ? 1 : 2) : 0);
  const shown = [...items].sort((a, b) => rank(a) - rank(b) || b.id - a.id).slice(0, shownMost);
  return (
    <div className="uploads">
      <div className="row">
        <p role="status">
          {done} of {plural(items.length, "upload")} done{failed > 0 && `, ${failed} failed`}
        </p>
        {done > 0 && <Action onPress={clear}>Clear what is done</Action>}
      </div>
      <ul>
        {shown.map((i) => (
          <li key={i.id}>
            <span className="name">
              {i.document ? <Link href={`/documents/${i.document}`}>{i.name}</Link> : i.name}
            </span>
            <ItemState item={i} />
            {i.message && <span className="quiet message">{i.message}</span>}
          </li>
        ))}
      </ul>
      {items.length > shown.length && <p className="quiet">and {items.length - shown.length} more</p>}
    </div>
  );
}

function ItemState({ item }: { item: Item }) {
  switch (item.state) {
    case "waiting":
      return <span className="badge">waiting</span>;
    case "broken":
      return <span className="badge failed">not sent</span>;
    case "sending":
      return (
        <ProgressBar className="progress" value={item.share * 100}>
          {({ percentage, valueText }) => (
            <>
              <Label className="hidden">Sending {item.name}</Label>
              <span className="track" aria-hidden="true">
                <span className="fill" style={{ width: `${percentage ?? 0}%` }} />
              </span>
              <span>{valueText}</span>
            </>
          )}
        </ProgressBar>
      );
    default:
      return <StateBadge state={item.state} />;
  }
}

const chosen = (list: FileList | null) =>
  Array.from(list ?? [], (file) => ({ name: file.webkitRelativePath || file.name, file }));

type Dropped =
  | { kind: "file"; name: string; getFile(): Promise<File> }
  | { kind: "directory"; name: string; getEntries(): AsyncIterable<Dropped> }
  | { kind: "text" };

/** The dropped files, and those in dropped folders, by their paths. Hidden ones are ignored. */
async function dropped(items: Iterable<Dropped>): Promise<{ name: string; file: File }[]> {
  const out: { name: string; file: File }[] = [];
  const take = async (item: Dropped, above: string) => {
    if (item.kind === "text" || (above && item.name.startsWith("."))) return;
    if (item.kind === "file") {
      out.push({ name: above + item.name, file: await item.getFile() });
      return;
    }
    for await (const entry of item.getEntries()) await take(entry, `${above}${item.name}/`);
  };
  for (const item of items) await take(item, "");
  return out;
}
