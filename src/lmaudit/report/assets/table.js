// The table of findings: one page of rows at a time, each of which opens.

const COLUMNS = [
  { name: "pair", title: "Prompt → output", cell: pairCell },
  { name: "levels", title: "Holds", cell: levelsCell, down: true, hint: "token by token, as typed text, afresh" },
  { name: "logprob", title: "log p", cell: (f) => figure(f.logprob), number: true, down: true },
  { name: "margin", title: "Margin", cell: (f) => figure(f.margin), number: true, down: true },
  { name: "optimizer", title: "Optimiser", cell: (f) => isolated(printable(f.optimizer)) },
  { name: "m", title: "Tokens", cell: (f) => `${f.m} → ${f.n}`, number: true, hint: "of the prompt and of the output" },
  { name: "seconds", title: "Seconds", cell: (f) => figure(f.seconds, 1), number: true },
  { name: "judge", title: "Judge", cell: judgeCell, down: true, only: () => DATA.judges.length > 0 },
  { name: "study", title: "Study", cell: (f) => isolated(printable(DATA.studies[f.study])), only: () => DATA.studies.length > 1 },
].filter((column) => column.only?.() ?? true);

const byId = (id) => document.getElementById(id);
let listed = [];

function draw() {
  listed = chosen();
  const last = Math.max(0, Math.ceil(listed.length / view.size) - 1);
  view.page = Math.min(view.page, last);
  drawHeads();
  drawRows(pageOf(listed));
  drawCount(last);
}

const pageOf = (findings) => findings.slice(view.page * view.size, (view.page + 1) * view.size);

function drawHeads() {
  const sorting = document.activeElement?.dataset?.sort;
  byId("heads").replaceChildren(...COLUMNS.map((column) => {
    const mine = view.sort === column.name;
    const mark = mine ? (view.down ? " ↓" : " ↑") : "";
    const button = make("button", { type: "button", "data-sort": column.name, title: column.hint ?? null }, column.title, make("span", { "aria-hidden": "true" }, mark));
    button.addEventListener("click", () => sortBy(column.name, mine ? !view.down : column.down ?? false));
    return make("th", { scope: "col", class: column.number ? "number" : null, "aria-sort": mine ? (view.down ? "descending" : "ascending") : null }, button);
  }));
  if (sorting) byId("heads").querySelector(`[data-sort="${sorting}"]`)?.focus();
}

function sortBy(name, down) {
  Object.assign(view, { sort: name, down, page: 0 });
  byId("sort").value = `${name} ${down ? "down" : "up"}`;
  draw();
}

function drawRows(findings) {
  const rows = findings.flatMap(rowsOf);
  byId("rows").replaceChildren(...(rows.length ? rows : [make("tr", {}, make("td", { colspan: COLUMNS.length, class: "nothing" }, "Nothing matches."))]));
}

/** The row of a finding, and beneath it what it opens to. */
function rowsOf(finding) {
  const open = opened.has(finding.key);
  const cells = COLUMNS.map((column) => make("td", { class: [column.name, column.number ? "number" : ""].join(" ").trim(), "data-title": column.title }, column.cell(finding)));
  const row = make("tr", { id: finding.key, class: `finding${open ? " open" : ""}${finding.solved ? "" : " failed"}` }, cells);
  const more = open ? make("tr", { id: `${finding.key}-more`, class: "more" }, make("td", { colspan: COLUMNS.length }, details(finding))) : null;
  return more ? [row, more] : [row];
}

function pairCell(finding) {
  const open = opened.has(finding.key);
  const button = make("button", { type: "button", class: "opener", "aria-expanded": String(open), "aria-controls": open ? `${finding.key}-more` : null },
    brief(finding.prompt, isVeiled(finding, "prompt")), make("span", { class: "arrow" }, " → "), brief(finding.output, isVeiled(finding, "output")));
  button.addEventListener("click", () => toggle(finding));
  return [button, finding.solved ? null : make("span", { class: "tag" }, "failed"), isMasked(finding) && !asked.all ? veilButton(finding) : null].filter(Boolean);
}

function veilButton(finding) {
  const shown = asked.findings.has(finding.key);
  const button = make("button", { type: "button", class: "small veil-item", "aria-pressed": String(shown) }, shown ? "Mask" : "Show");
  button.addEventListener("click", () => {
    ask(finding);
    redrawOne(finding);
    byId(finding.key).querySelector(".veil-item").focus();
  });
  return button;
}

function levelsCell(finding) {
  const mark = (level) => (holds(finding, level) ? "✓" : level === "text" && !holds(finding, "ids") ? "–" : "✗");
  const marks = LEVELS.map(([level]) => make("span", { class: holds(finding, level) ? "yes" : "no" }, mark(level)));
  const words = LEVELS.map(([level, name]) => `${name}: ${holds(finding, level) ? "yes" : "no"}`).join(", ");
  return [make("span", { class: "marks", "aria-hidden": "true", title: words }, marks), hidden(words)];
}

function judgeCell(finding) {
  const words = confirmations(finding).map((confirms) => (confirms === null ? "–" : confirms ? "yes" : "no"));
  const bare = (finding.judged ?? []).some(([place]) => !DATA.judges[place].cards.length);
  return words.length ? [words.join(" "), bare ? make("span", { class: "doubt" }, " unvalidated") : null].filter(Boolean) : "";
}

function toggle(finding) {
  if (opened.has(finding.key)) opened.delete(finding.key);
  else opened.add(finding.key);
  redrawOne(finding);
  byId(finding.key).querySelector(".opener").focus();
}

function redrawOne(finding) {
  byId(`${finding.key}-more`)?.remove();
  byId(finding.key)?.replaceWith(...rowsOf(finding));
}

function drawCount(last) {
  const first = view.page * view.size;
  const shown = pageOf(listed).length;
  const range = shown && shown < listed.length ? `${(first + 1).toLocaleString("en")} to ${(first + shown).toLocaleString("en")} of ` : "";
  byId("count").textContent = `${range}${listed.length.toLocaleString("en")} listed, of ${count(FINDINGS.length, "search that ended", "searches that ended")}.`;
  byId("paging").hidden = FINDINGS.length <= 25;
  byId("place").textContent = `Page ${view.page + 1} of ${last + 1}`;
  byId("previous").disabled = view.page === 0;
  byId("next").disabled = view.page >= last;
}
