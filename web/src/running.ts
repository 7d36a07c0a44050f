// Counters of running services over time.

/** How much a counter grew per second between two readings; without an earlier reading, since it began. */
export function perSecond(now: number, before: number | undefined, seconds: number): number {
  if (before === undefined || now < before) return 0;
  return seconds > 0 ? (now - before) / seconds : 0;
}
