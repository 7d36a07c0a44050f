// The part of a document that a citation or a search result refers to, kept in the address.

import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { useSearchParams } from "wouter";
import { get, type Page, withQuery } from "./api";
import type { DocumentSection, Place, Span } from "./types";

/** The span in the address. */
export function useAskedSpan(): Span | null {
  const [params] = useSearchParams();
  const section = params.get("section");
  const start = Number(params.get("start"));
  const end = Number(params.get("end"));
  const version = params.get("version") ?? "";
  return useMemo(
    () => (section && Number.isInteger(start) && end > start ? { version, section, start, end } : null),
    [section, start, end, version],
  );
}

/** The part of the span that is an answer by itself, if the address has one. */
export function useAskedAnswer(span: Span | null): Span | null {
  const [params] = useSearchParams();
  const start = Number(params.get("answer_start"));
  const end = Number(params.get("answer_end"));
  return useMemo(
    () => (span && start >= span.start && end > start && end <= span.end ? { ...span, start, end } : null),
    [span, start, end],
  );
}

/** The sections of a span: none or one. */
export function useCitedSection(document: string, span: Span | null) {
  return useQuery({
    queryKey: ["section", document, span?.version, span?.section],
    queryFn: ({ signal }) =>
      get<Page<DocumentSection>>(
        withQuery(`/v1/documents/${document}/sections`, { version: span?.version, section: span?.section }),
        signal,
      ),
    enabled: span !== null,
  });
}

/** Position of a span on its document's pages. */
export function useCitedPlace(document: string, span: Span | null) {
  return useQuery({
    queryKey: ["place", document, span],
    queryFn: ({ signal }) => get<Place>(withQuery(`/v1/documents/${document}/place`, { ...span }), signal),
    enabled: span !== null,
    staleTime: Number.POSITIVE_INFINITY,
  });
}
