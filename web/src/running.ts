// Counters of what runs, over time.

/** How much a counter grew in a second, between two looks; since it began when there was no look before. */
export function perSecond(now: number, before: number | undefined, seconds: number): number {
  if (before === undefined || now < before) return 0;
  return seconds > 0 ? (now - before) / seconds : 0;
}
