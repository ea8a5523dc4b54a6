"use strict";
// The token stands behind the # of the address: no browser sends that part, and no log holds it.
const token = location.hash.slice(1);
const DRAFT = "lmaudit-write-draft";
const at = (id) => document.getElementById(id);
let busy = false;

async function ask(path, body) {
  const headers = { Authorization: `Bearer ${token}` };
  const options = { headers };
  if (body !== undefined) {
    options.method = "POST";
    options.body = JSON.stringify(body);
    headers["Content-Type"] = "application/json";
  }
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    throw new Error("no connection; your text is still here, try again");
  }
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(answer.error || `no answer (${response.status})`);
  return answer;
}

function words(answer) {
  if (answer.score !== null) return `${answer.outcome} ${answer.score.toFixed(3)}`;
  if (answer.outcome === "missing") return `not kept: no answer (${answer.reason})`;
  return answer.reason === null ? answer.outcome : `${answer.outcome}: ${answer.reason}`;
}

function showCounts(counts) {
  const said = Object.entries(counts).filter(([name, n]) => n > 0 || name === "kept");
  at("counts").textContent = said.map(([name, n]) => `${n} ${name}`).join(", ");
  at("undo").disabled = counts.kept === 0;
}

function addAttempt(told, text) {
  const item = document.createElement("li");
  const outcome = document.createElement("b");
  outcome.textContent = told;
  item.append(outcome, text);
  at("attempts").prepend(item);
}

function setDraft(text) {
  at("text").value = text;
  sessionStorage.setItem(DRAFT, text);
}

// One request at a time; whatever goes wrong is said, and leaves the text where it is.
async function once(work) {
  if (busy) return;
  busy = true;
  at("offer").disabled = true;
  try {
    at("told").textContent = await work();
  } catch (error) {
    at("told").textContent = error.message;
  } finally {
    busy = false;
    at("offer").disabled = false;
  }
}

function offer() {
  return once(async () => {
    const text = at("text").value;
    if (text.trim() === "") return "there is nothing to offer yet";
    at("told").textContent = "…";
    const answer = await ask("/api/texts", { text });
    showCounts(answer.counts);
    addAttempt(words(answer), text);
    // Dropped texts stay: most authors go on from them. What was typed meanwhile stays too.
    if (answer.outcome === "kept" && at("text").value === text) setDraft("");
    return words(answer);
  });
}

function undo() {
  return once(async () => {
    const answer = await ask("/api/undo", {});
    showCounts(answer.counts);
    if (answer.text === null) return "nothing to take back";
    addAttempt("taken back", answer.text);
    if (at("text").value === "") setDraft(answer.text);
    return "taken back";
  });
}

at("form").addEventListener("submit", (event) => { event.preventDefault(); offer(); });
at("undo").addEventListener("click", undo);
at("text").addEventListener("input", () => sessionStorage.setItem(DRAFT, at("text").value));
at("text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); offer(); }
});
at("text").value = sessionStorage.getItem(DRAFT) || "";
once(async () => {
  const session = await ask("/api/session");
  document.title = `Write: ${session.category}`;
  at("category").textContent = session.category;
  at("rule").textContent = session.rule;
  at("text").maxLength = session.longest_text;
  showCounts(session.counts);
  return "";
});
