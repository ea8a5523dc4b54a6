// What the rater did and the server has not confirmed yet. Kept in memory and in localStorage, sent in order, again and
// again until confirmed; the server stores an event that it gets twice once.
//
// localStorage belongs to everything that was ever served from this address and port, so what is found there is only
// trusted as far as its form goes, and nothing of it is shown. Where it does not work, memory has to do.

const ID = /^[0-9a-f]{32}$/;
const KINDS = ["rating", "skip", "comment", "back", "break"];
const MOST_KEPT = 2000;
const AT_ONCE = 20;
const MOST_BYTES = 48000; // the server takes 65,536 in a request
const LONGEST_WAIT_MS = 15000;

function isEvent(event) {
  return event !== null && typeof event === "object" && ID.test(event.id) && Number.isSafeInteger(event.place) &&
    event.place >= 0 && KINDS.includes(event.kind) &&
    (event.kind === "rating") === (Number.isInteger(event.value) && event.value >= 0 && event.value <= 10) &&
    (event.kind === "comment") === (typeof event.comment === "string" && event.comment.length <= 2000);
}

function onlyItsParts(event) {
  const { id, place, kind, value, comment, took_ms } = event;
  return JSON.parse(JSON.stringify({ id, place, kind, value, comment, took_ms }));
}

export function newId() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export class Queue {
  // post(events) resolves to why each was refused ("" for stored), or throws {status, retryAfterMs}.
  constructor(key, post, changed) {
    this.prefix = `lmaudit.${key}.`;
    this.post = post;
    this.changed = changed;
    this.events = [];
    this.failures = 0;
    this.nextTryMs = 0;
    this.stopped = false;
    this.sending = false;
    this.timer = 0;
    this.last = 0;
    this.kept = true;
    this.nRefused = 0;
    this.recover();
    addEventListener("online", () => this.send());
  }

  recover() {
    const found = [];
    try {
      for (let i = 0; i < localStorage.length && found.length < MOST_KEPT; i++) {
        const name = localStorage.key(i);
        if (name.startsWith(this.prefix)) found.push([name, localStorage.getItem(name)]);
      }
    } catch {
      this.kept = false;
    }
    found.sort(([a], [b]) => (a < b ? -1 : 1));
    for (const [name, text] of found) {
      let event = null;
      try {
        event = JSON.parse(text);
      } catch { /* not ours */ }
      if (isEvent(event)) this.events.push({ ...onlyItsParts(event), name });
      else this.forget(name);
    }
  }

  add(event) {
    // Names sort in the order in which things were done, also those of another tab.
    this.last = Math.max(Date.now(), this.last + 1);
    const whole = { ...event, id: newId() };
    const name = this.prefix + String(this.last).padStart(16, "0") + "." + whole.id.slice(0, 8);
    try {
      localStorage.setItem(name, JSON.stringify(whole));
    } catch {
      this.kept = false;
    }
    this.events.push({ ...whole, name });
    this.changed();
    this.send();
  }

  forget(name) {
    try {
      localStorage.removeItem(name);
    } catch { /* it was not kept */ }
  }

  async send() {
    if (this.sending || this.stopped || this.events.length === 0) return;
    clearTimeout(this.timer);
    this.sending = true;
    const batch = this.next();
    let waitMs = 0;
    try {
      this.confirm(batch, await this.post(batch.map(onlyItsParts)));
      this.failures = 0;
    } catch (error) {
      waitMs = this.fail(error);
    }
    this.sending = false;
    this.nextTryMs = Date.now() + waitMs;
    this.changed();
    if (this.events.length > 0 && !this.stopped) this.timer = setTimeout(() => this.send(), waitMs);
  }

  next() {
    let bytes = 0;
    const fits = (event) => (bytes += new TextEncoder().encode(JSON.stringify(event)).length) < MOST_BYTES;
    return this.events.slice(0, AT_ONCE).filter((event, i) => fits(event) || i === 0);
  }

  confirm(batch, refusals) {
    for (const event of batch) this.forget(event.name);
    this.events.splice(0, batch.length);
    this.nRefused += refusals.filter((why) => why !== "").length;
  }

  fail(error) {
    if (error.status === 401) { // kept: a new link for the same rater sends them
      this.stopped = true;
      return 0;
    }
    this.failures += 1;
    const backoffMs = Math.min(LONGEST_WAIT_MS, 500 * 2 ** Math.min(this.failures - 1, 5));
    return Math.max(error.retryAfterMs ?? 0, backoffMs * (0.75 + Math.random() / 2));
  }
}
