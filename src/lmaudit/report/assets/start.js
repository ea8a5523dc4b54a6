// The page begins: controls, keys, links to findings, paper.

const MOST_PRINTED = 100;

function fill(id, options, all) {
  const select = byId(id);
  select.replaceChildren(make("option", { value: "" }, all), ...options.map(([value, words]) => make("option", { value }, words)));
  select.value = view[id];
  select.closest("label").hidden = options.length < 2;
}

/** What can be chosen; targets are written as they are shown elsewhere. */
function fillControls() {
  const veiled = new Set(FINDINGS.filter((f) => isVeiled(f, "output")).map((f) => f.target));
  const words = (target) => shownText(beginning(target, 60), veiled.has(target));
  fill("optimizer", TAGS.optimizer.map((name, number) => [number, printable(name)]), "all");
  fill("target", TAGS.target.map((target, number) => [number, words(target)]), "all");
  fill("study", DATA.studies.map((name, number) => [number, printable(name)]), "all");
  byId("judge").closest("label").hidden = DATA.judges.length === 0;
  const orders = COLUMNS.flatMap((c) => [[`${c.name} up`, `${c.title} ↑`], [`${c.name} down`, `${c.title} ↓`]]);
  byId("sort").replaceChildren(...[["place up", "order of the searches"], ...orders].map(([value, title]) => make("option", { value }, title)));
  byId("sort").value = `${view.sort} ${view.down ? "down" : "up"}`;
}

function armControls() {
  if (!FINDINGS.some((finding) => finding.solved)) view.level = byId("level").value = "all";
  for (const name of ["level", "optimizer", "target", "judge", "study"])
    byId(name).addEventListener("change", () => choose(name, byId(name).value));
  byId("query").addEventListener("input", () => choose("query", byId("query").value));
  byId("sort").addEventListener("change", () => sortBy(byId("sort").value.split(" ")[0], byId("sort").value.endsWith("down")));
  byId("size").addEventListener("change", () => choose("size", Number(byId("size").value)));
  byId("choosing").addEventListener("submit", (event) => event.preventDefault());
  byId("previous").addEventListener("click", () => turn(-1));
  byId("next").addEventListener("click", () => turn(1));
  byId("choosing").hidden = false;
}

function choose(name, value) {
  view[name] = value;
  view.page = 0;
  draw();
}

function turn(by) {
  view.page += by;
  draw();
  byId("count").scrollIntoView({ block: "nearest" });
}

/** Arrows walk through the rows, Escape closes what one is in. */
function armKeys() {
  byId("rows").addEventListener("keydown", (event) => {
    const openers = [...byId("rows").querySelectorAll(".opener")];
    const here = openers.indexOf(event.target);
    const steps = { ArrowDown: here + 1, ArrowUp: here - 1, Home: 0, End: openers.length - 1 };
    if (here >= 0 && event.key in steps) {
      openers[steps[event.key]]?.focus();
      event.preventDefault();
    }
    const row = event.target.closest(".more")?.previousElementSibling ?? event.target.closest(".finding.open");
    if (event.key === "Escape" && row) toggle(FINDINGS.find((finding) => finding.key === row.id));
  });
}

/** ``#finding-1-12``: the page turns to this finding and opens it. */
function follow() {
  const finding = FINDINGS.find((f) => `#${f.key}` === location.hash);
  if (!finding) return;
  if (!chosen().includes(finding)) {
    Object.assign(view, { query: "", level: "all", optimizer: "", target: "", judge: "", study: "" });
    for (const name of ["query", "level", "optimizer", "target", "judge", "study"]) byId(name).value = view[name];
  }
  view.page = Math.floor(chosen().indexOf(finding) / view.size);
  opened.add(finding.key);
  draw();
  byId(finding.key).scrollIntoView();
  byId(finding.key).querySelector(".opener").focus({ preventScroll: true });
}

/** On paper nothing can be opened: what is folded is open there. */
function armFolds() {
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    for (const box of folded) box.open = true;
  });
  addEventListener("afterprint", () => {
    for (const box of folded) box.open = false;
  });
}

/** On paper: what is listed, up to a hundred, each with its command. */
function armPaper() {
  const note = byId("print-note");
  addEventListener("beforeprint", () => {
    const printed = listed.slice(0, MOST_PRINTED);
    byId("rows").replaceChildren(...printed.flatMap((finding) => [rowsOf(finding)[0], paperRow(finding)]));
    note.textContent = printed.length < listed.length ? `The first ${printed.length} of ${count(listed.length, "finding")} that were listed when this was printed.` : "";
  });
  addEventListener("afterprint", () => {
    note.textContent = "";
    draw();
  });
}

function paperRow(finding) {
  const judged = (finding.judged ?? []).map(([place, , confirms]) => {
    const { name, cards } = DATA.judges[place];
    const words = confirms === null ? "no answer" : confirms ? "confirms" : "does not confirm";
    return ["Judge ", isolated(printable(name)), `: ${words}, ${cards.length ? "its record is in the summary" : "unvalidated"}. `];
  });
  const command = finding.command === undefined ? null : make("p", {}, make("code", { dir: "ltr" }, commandShown(finding)));
  return make("tr", { class: "more paper" }, make("td", { colspan: COLUMNS.length }, searchLine(finding), judged.length ? make("p", {}, judged.flat()) : null, command));
}

/** What is wider than the screen scrolls in its box, which the keyboard can then reach. */
function armBoxes() {
  for (const box of document.querySelectorAll(".chart-box, .table-box"))
    if (!box.hasAttribute("tabindex") && box.id !== "findings-box") box.tabIndex = 0;
}

recall();
armVeiledTexts();
if (byId("table")) {
  fillControls();
  armControls();
  armKeys();
  armPaper();
  draw();
  addEventListener("hashchange", () => {
    remember(); // a link makes a new entry of the history, and going back finds the old one as it was left
    follow();
  });
  follow();
}
armVeilBar(() => {
  if (!byId("table")) return;
  fillControls();
  draw();
});
armBoxes();
armFolds();
