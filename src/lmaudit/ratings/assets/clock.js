// How long a text could be read: not while it is hidden, not during breaks.

const TOO_FAST_MS = 250; // nobody has read a text in that time: it is the last key, pressed twice
const DAY_MS = 86400000;

export class Clock {
  constructor() {
    this.madeMs = performance.now(); // when the text was laid before the rater, hidden or not
    this.beforeMs = 0; // until it was last hidden
    this.sinceMs = null; // null: hidden now
  }

  set(readable) {
    if (readable && this.sinceMs === null) this.sinceMs = performance.now();
    if (!readable && this.sinceMs !== null) {
      this.beforeMs = this.tookMs();
      this.sinceMs = null;
    }
  }

  tookMs() {
    const nowMs = this.sinceMs === null ? 0 : performance.now() - this.sinceMs;
    return Math.min(DAY_MS, Math.round(this.beforeMs + nowMs));
  }

  justLaid() {
    return performance.now() - this.madeMs < TOO_FAST_MS;
  }

  tooFast() {
    return this.tookMs() < TOO_FAST_MS;
  }
}
