// The page where people rate: one text at a time, by keys, buttons or slider.
import { ask, askUntilAnswered } from "./api.js";
import { Clock } from "./clock.js";
import { listenToKeys } from "./keys.js";
import { $, choose, makeDigits, say, showConnection, showPlace, showProgress, showText, showView } from "./view.js";
import { Queue } from "./queue.js";

const AHEAD = 10; // texts kept ready, so that rating goes on while there is no connection

const texts = new Map();
let session = null;
let places = [];
let queue = null;
let at = 0;
let tour = null; // places to visit instead of the next ones
let shown = false; // until asked for; forgotten with the page
let clock = new Clock();
let fetching = false;

async function start() {
  try {
    session = await askUntilAnswered("api/session", () => { $("connection").textContent = "No connection; trying again."; });
  } catch {
    showView("refused");
    return;
  }
  $("connection").textContent = "";
  places = session.places.map(([answered, value, comment]) => ({ answered, value, comment }));
  const post = async (events) => (await ask("api/events", { method: "POST", body: JSON.stringify({ events }) })).refused;
  queue = new Queue(session.key, post, sent);
  for (const event of queue.events) apply(event);
  queue.send();
  for (const name of ["question", "low", "high"]) $(name).textContent = session[name];
  $("how-many").textContent = places.length === 1 ? "one text" : `${places.length} texts`;
  const begun = places.some((place) => place.answered);
  $("begin").textContent = begun ? "Go on" : "Begin";
  at = firstOpen() ?? places.length - 1;
  fetchTexts(at);
  showView("warning");
}

function sent() {
  if (queue.stopped) showView("refused");
  showConnection(queue);
}

function apply(event) {
  const place = places[event.place];
  if (place === undefined) return;
  if (event.kind === "comment") place.comment = event.comment;
  if (event.kind === "rating" || event.kind === "skip") Object.assign(place, { answered: true, value: event.value ?? null });
}

function firstOpen() {
  const found = places.findIndex((place) => !place.answered);
  return found === -1 ? null : found;
}

// ── texts ────────────────────────────────────────────────────────────────────────────────────────────────────

async function fetchTexts(first) {
  if (fetching) return;
  fetching = true;
  try {
    while (missingFrom(first) !== null) {
      const got = await askUntilAnswered(`api/texts?first=${missingFrom(first)}`, () => {});
      got.texts.forEach((text, i) => texts.set(got.first + i, text));
      if (!$("rating").hidden && $("rating").dataset.place === "" && texts.has(at)) showNow();
      first = at;
    }
  } catch {
    showView("refused");
  }
  fetching = false;
}

function missingFrom(first) {
  for (let place = first; place < Math.min(first + AHEAD, places.length); place++) if (!texts.has(place)) return place;
  return null;
}

// ── what is shown ────────────────────────────────────────────────────────────────────────────────────────────

function go(place) {
  at = place;
  closeComment();
  showView("rating");
  showNow();
  $("text").focus();
  fetchTexts(at);
}

function showNow() {
  showPlace(at, places.length, places[at], texts.get(at), shown);
  progress();
  clock = new Clock();
  clock.set(readable());
}

function progress() {
  showProgress(places.filter((place) => place.answered).length, places.length, session.pace_ms);
}

function readable() {
  return shown && texts.has(at) && !$("rating").hidden;
}

function veil() {
  shown = !shown;
  showText(texts.get(at), shown);
  clock.set(readable());
  say(shown ? "Texts are shown." : "Texts are hidden.");
  $("text").focus();
}

// ── what the rater does ──────────────────────────────────────────────────────────────────────────────────────

function record(event) {
  apply(event);
  queue.add(event);
}

function rate(value) {
  if (!texts.has(at)) return;
  if (!shown) {
    say("The text is hidden. Show it first with S, or skip it with K.");
    return;
  }
  if (clock.tooFast()) return;
  const took = clock.tookMs();
  session.pace_ms = [took, ...session.pace_ms].slice(0, 20);
  record({ place: at, kind: "rating", value, took_ms: took });
  moveOn(`${value} given.`);
}

function store() {
  rate(Number($("slider").value));
}

function skip() {
  if (!texts.has(at) || clock.justLaid()) return;
  record({ place: at, kind: "skip", took_ms: clock.tookMs() });
  moveOn("Skipped.");
}

function moveOn(did) {
  const next = tour === null ? at + 1 : tour.shift();
  const open = firstOpen();
  if (next !== undefined && next < places.length) go(next);
  else if (open !== null) go(open);
  else finish();
  say($("finish").hidden ? `${did} Text ${at + 1} of ${places.length}.` : did);
}

function back() {
  if (at === 0) return;
  record({ place: at - 1, kind: "back" });
  tour = null;
  go(at - 1);
  say(`Back. Text ${at + 1} of ${places.length}.`);
}

function forward() {
  if (places[at].answered) moveOn("Forward.");
}

function pause() {
  record({ place: at, kind: "break" });
  showView("break");
  clock.set(readable());
}

function resume() {
  showView("rating");
  document.title = $("place").textContent;
  clock.set(readable());
  $("text").focus();
}

function finish() {
  tour = null;
  const nSkipped = places.filter((place) => place.value === null).length;
  const skipped = nSkipped === 0 ? "" : nSkipped === 1 ? " You skipped 1 text." : ` You skipped ${nSkipped} texts.`;
  $("summary").textContent = `All ${places.length} texts are done.${skipped} You can close this page, or go back and change something.`;
  $("to-skipped").hidden = nSkipped === 0;
  progress();
  showView("finish");
}

function seeSkipped() {
  tour = places.flatMap((place, i) => (place.value === null ? [i] : []));
  go(tour.shift());
}

function openComment() {
  const opened = $("commenting").hidden;
  if (!opened) return closeComment();
  $("commenting").hidden = false;
  $("remark").setAttribute("aria-expanded", "true");
  $("comment").value = places[at].comment;
  $("comment").maxLength = session.longest_comment;
  $("comment").focus();
  $("commenting").scrollIntoView({ block: "nearest" });
}

function closeComment() {
  $("commenting").hidden = true;
  $("remark").setAttribute("aria-expanded", "false");
}

function leaveComment() {
  closeComment();
  $("remark").focus();
}

function keepComment(submitted) {
  submitted.preventDefault();
  const comment = $("comment").value.trim();
  if (comment !== places[at].comment) record({ place: at, kind: "comment", comment });
  closeComment();
  showPlace(at, places.length, places[at], texts.get(at), shown);
  say("Comment kept.");
  $("text").focus();
}

makeDigits(rate);
listenToKeys({ rate, store, veil, skip, back, forward, pause, comment: openComment, leaveComment });
const chosen = () => choose(Number($("slider").value));
$("slider").addEventListener("input", chosen);
$("slider").addEventListener("pointerup", chosen); // the middle, where the hidden thumb waits, changes nothing
$("store").addEventListener("click", store);
$("commenting").addEventListener("submit", keepComment);
const clicks = {
  begin: () => go(at), show: veil, back, forward, skip, remark: openComment, pause, resume,
  "comment-not": leaveComment,
  "to-skipped": seeSkipped, "look-again": () => go(places.length - 1),
};
for (const [id, action] of Object.entries(clicks)) $(id).addEventListener("click", action);
addEventListener("hashchange", () => location.reload());
addEventListener("beforeunload", (leaving) => {
  if (queue !== null && queue.events.length > 0 && !queue.kept) leaving.preventDefault();
});
document.addEventListener("visibilitychange", () => { if (!document.hidden) queue?.send(); });
start();
