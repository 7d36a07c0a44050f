// Draws the pages of a PDF, one at a time, with boxes marked on them. It needs pdf.js, so it is
// loaded only for PDFs.

import {
  getDocument,
  GlobalWorkerOptions,
  type PDFDocumentProxy,
  type PDFPageProxy,
  type RenderTask,
  version as release,
} from "pdfjs-dist";
import workerPath from "pdfjs-dist/build/pdf.worker.min.mjs?url";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";
import { Input, NumberField } from "react-aria-components";
import { APIError, getBytes } from "./api";
import type { PagesView, Places } from "./original";
import type { Box } from "./types";
import { Action, ErrorBox, Loading } from "./ui";
import "./pages.css";

GlobalWorkerOptions.workerSrc = workerPath;

/** Where pdf.js finds files that some PDFs need; vite.config.ts puts them there. */
const files = import.meta.env.DEV ? "/node_modules/pdfjs-dist" : `/assets/pdfjs-${release}`;

/** Maximum number of pixels of a canvas, in total and per side: some browsers draw nothing on a larger one. */
const mostPixels = 16_000_000;
const mostOnASide = 8192;

/** CSS has 96 pixels to an inch, PDF 72 points. */
const pixelsPerPoint = 96 / 72;
const zooms = [0.25, 0.5, 0.75, 1, 1.25, 1.5, 2, 3, 4];

const Pages: PagesView = ({ path, first, places }) => {
  const { pdf, error, retry } = usePDF(path);
  if (pdf) return <Book pdf={pdf} first={first} places={places} />;
  if (!error) return <Loading />;
  return (
    <div>
      <ErrorBox error={error} retry={error instanceof APIError && error.status !== 404 ? retry : undefined} />
      {!(error instanceof APIError) && (
        <p>
          <a href={path} download>
            Download it
          </a>
        </p>
      )}
    </div>
  );
};
export default Pages;

/** Fetches and opens a PDF while the component is mounted. */
function usePDF(path: string) {
  const [opened, setOpened] = useState<{ path: string; pdf?: PDFDocumentProxy; error?: Error } | null>(null);
  const [tries, setTries] = useState(0);
  useEffect(() => {
    const leave = new AbortController();
    let close = () => {};
    const open = async () => {
      const data = await getBytes(path, leave.signal);
      const task = getDocument({
        data,
        cMapUrl: `${files}/cmaps/`,
        standardFontDataUrl: `${files}/standard_fonts/`,
        wasmUrl: `${files}/wasm/`,
        // Fonts that a PDF does not embed are replaced by those of pdf.js, so that it looks the
        // same everywhere.
        useSystemFonts: false,
        // The server's policy forbids scripts generated at run time, and WebAssembly is one.
        useWasm: false,
        // Images over this size, in pixels, are not drawn, to bound memory.
        maxImageSize: 64 * 1024 * 1024,
        verbosity: 0,
      });
      close = () => void task.destroy();
      if (leave.signal.aborted) close();
      return task.promise;
    };
    open().then(
      (pdf) => !leave.signal.aborted && setOpened({ path, pdf }),
      (error: Error) => !leave.signal.aborted && setOpened({ path, error: said(error) }),
    );
    return () => {
      leave.abort();
      close();
      setOpened(null);
    };
  }, [path, tries]);
  const current = opened?.path === path ? opened : null;
  return { pdf: current?.pdf, error: current?.error, retry: () => setTries(tries + 1) };
}

/** A message of pdf.js for people. */
function said(error: Error): Error {
  switch (error.name) {
    case "PasswordException":
      return new Error("The PDF is encrypted: its pages are open to those alone who have its password.");
    case "InvalidPDFException":
      return new Error("The PDF is damaged: its pages can't be shown.");
  }
  return error instanceof APIError ? error : new Error(`The PDF's pages can't be shown: ${error.message}`);
}

/** What to draw. */
interface Wanted {
  pdf: PDFDocumentProxy;
  number: number;
  zoom: Zoom;
  /** Width of the page in CSS pixels, if it is to fit. */
  room: number;
  places: Places;
}

/** A drawn page. */
interface Sheet extends Wanted {
  /** CSS pixels per point. */
  scale: number;
  canvas: HTMLCanvasElement;
  /** In CSS pixels. */
  width: number;
  height: number;
  marks: { answers: boolean; style: { left: number; top: number; width: number; height: number } }[];
}

/** Zoom of pages: to the available width, or a multiple of their size on paper. */
type Zoom = "fit" | number;

function Book({ pdf, first, places }: { pdf: PDFDocumentProxy; first: number; places: Places }) {
  const within = (n: number) => Math.min(Math.max(1, n), pdf.numPages);
  const [number, setNumber] = useState(within(first));
  const [zoom, setZoom] = useState<Zoom>("fit");
  const frame = useRef<HTMLDivElement>(null);
  const width = useWidth(frame);
  useEffect(() => setNumber(within(first)), [first, places]);
  const { sheet, busy, error } = useSheet(pdf, number, zoom, width, places);
  useShown(frame, sheet);

  const size = (sheet?.scale ?? pixelsPerPoint) / pixelsPerPoint;
  const larger = zooms.find((z) => z > size + 0.01);
  const smaller = zooms.findLast((z) => z < size - 0.01);
  return (
    <div className="book">
      <div className="book-tools" role="group" aria-label="Page and size">
        <Action aria-label="Previous page" isDisabled={number <= 1} onPress={() => setNumber(within(number - 1))}>
          ‹
        </Action>
        <NumberField
          className="book-number"
          aria-label="Page"
          value={number}
          minValue={1}
          maxValue={pdf.numPages}
          onChange={(n) => Number.isFinite(n) && setNumber(within(n))}
        >
          <Input />
        </NumberField>
        <span>of {pdf.numPages}</span>
        <Action aria-label="Next page" isDisabled={number >= pdf.numPages} onPress={() => setNumber(within(number + 1))}>
          ›
        </Action>
        <Action aria-label="Smaller" isDisabled={!smaller} onPress={() => smaller && setZoom(smaller)}>
          −
        </Action>
        <span>
          <span className="hidden">Size </span>
          {Math.round(size * 100)} %
        </span>
        <Action aria-label="Larger" isDisabled={!larger} onPress={() => larger && setZoom(larger)}>
          +
        </Action>
        <Action isDisabled={zoom === "fit"} onPress={() => setZoom("fit")}>
          Fit the width
        </Action>
      </div>
      <ErrorBox error={error} />
      {/* It can be scrolled, so it can be reached with the keyboard. */}
      <div className="book-frame" ref={frame} tabIndex={0} role="region" aria-label={`Page ${number}`} aria-busy={busy}>
        {sheet && <Drawn sheet={sheet} of={pdf.numPages} />}
      </div>
      <p className="hidden" role="status">
        {busy ? "Loading…" : `Page ${number} of ${pdf.numPages}`}
      </p>
    </div>
  );
}

/** A drawn page under its marks. */
function Drawn({ sheet: s, of }: { sheet: Sheet; of: number }) {
  const paper = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => paper.current?.replaceChildren(s.canvas), [s.canvas]);
  return (
    <div className="sheet" data-page={s.number} style={{ width: s.width, height: s.height }}>
      <div
        ref={paper}
        role="img"
        aria-label={`Page ${s.number} of ${of}${s.marks.length > 0 ? ", with what is cited marked" : ""}`}
      />
      {s.marks.map((m, i) => (
        <div className={m.answers ? "sheet-mark answers" : "sheet-mark"} key={i} aria-hidden="true" style={m.style} />
      ))}
    </div>
  );
}

/** Draws a page. The last one is shown until the new one is done; drawing is cancelled when it is no longer wanted. */
function useSheet(pdf: PDFDocumentProxy, number: number, zoom: Zoom, width: number, places: Places) {
  // A page at a fixed size is drawn once, however wide the window is.
  const room = zoom === "fit" ? width : 1;
  const wanted = useMemo<Wanted>(() => ({ pdf, number, zoom, room, places }), [pdf, number, zoom, room, places]);
  const [done, setDone] = useState<{ of: Wanted; sheet?: Sheet; error?: Error } | null>(null);
  useEffect(() => {
    if (wanted.room === 0) return;
    let left = false;
    let task: RenderTask | undefined;
    const draw = async () => {
      const page = await wanted.pdf.getPage(wanted.number);
      if (left) return;
      const begun = begin(page, wanted);
      task = begun.task;
      await task.promise;
      page.cleanup();
      if (!left) setDone({ of: wanted, sheet: begun.sheet });
    };
    draw().catch((e: Error) => {
      if (!left) setDone({ of: wanted, error: new Error(`Page ${wanted.number} can't be shown: ${e.message}`) });
    });
    return () => {
      left = true;
      task?.cancel();
    };
  }, [wanted]);
  return { sheet: done?.sheet, error: done?.error, busy: done?.of !== wanted };
}

/** Starts drawing a page. */
function begin(page: PDFPageProxy, wanted: Wanted): { sheet: Sheet; task: RenderTask } {
  const { zoom, places } = wanted;
  const scale = zoom === "fit" ? wanted.room / page.getViewport({ scale: 1 }).width : zoom * pixelsPerPoint;
  const viewport = page.getViewport({ scale });
  const density = Math.min(
    window.devicePixelRatio || 1,
    Math.sqrt(mostPixels / (viewport.width * viewport.height)),
    mostOnASide / viewport.width,
    mostOnASide / viewport.height,
  );
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, Math.floor(viewport.width * density));
  canvas.height = Math.max(1, Math.floor(viewport.height * density));
  // The element has the size of its pixels, so that marks match the text.
  const width = canvas.width / density;
  const height = canvas.height / density;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const mark = (b: Box, answers: boolean) => {
    // The page may be rotated and cropped.
    const [x1, y1] = viewport.convertToViewportPoint(b.left, b.bottom) as [number, number];
    const [x2, y2] = viewport.convertToViewportPoint(b.right, b.top) as [number, number];
    return {
      answers,
      style: { left: Math.min(x1, x2), top: Math.min(y1, y2), width: Math.abs(x2 - x1), height: Math.abs(y2 - y1) },
    };
  };
  const here = (b: Box) => b.page === page.pageNumber;
  const marks = [
    ...places.cited.filter(here).map((b) => mark(b, false)),
    ...places.answer.filter(here).map((b) => mark(b, true)),
  ];
  return {
    sheet: { ...wanted, scale, canvas, width, height, marks },
    task: page.render({ canvas, viewport: page.getViewport({ scale: scale * density }) }),
  };
}

/** The inner width of an element, without its scroll bar. */
function useWidth(of: { current: HTMLElement | null }): number {
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const element = of.current;
    if (!element) return;
    const watch = new ResizeObserver(() => setWidth(element.clientWidth));
    watch.observe(element);
    return () => watch.disconnect();
  }, [of]);
  return width;
}

/** Scrolls the marks into view; a page without marks is shown from its top. */
function useShown(frame: { current: HTMLElement | null }, sheet: Sheet | undefined) {
  const shown = useRef<Sheet>(undefined);
  useEffect(() => {
    const before = shown.current;
    shown.current = sheet;
    if (!sheet || !frame.current) return;
    // Do not scroll when the width of the window changes.
    if (before?.number === sheet.number && before.zoom === sheet.zoom && before.places === sheet.places) return;
    const mark = frame.current.querySelector(".sheet-mark");
    if (mark) mark.scrollIntoView({ block: "center", inline: "center" });
    else frame.current.scrollTop = 0;
  }, [frame, sheet]);
}
