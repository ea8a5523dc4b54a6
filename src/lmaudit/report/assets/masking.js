// Offensive texts stay masked until the reader asks: for one finding, for one text of a sentence, or for the page. What
// was asked for is kept with this entry of the tab's history, so a reload keeps it and nothing else ever learns of it.
// (Storage by origin would be shared by all pages that are opened from the disk.)

const asked = { all: false, findings: new Set() };

function recall() {
  const kept = history.state?.lmauditReport;
  asked.all = kept?.all === true;
  asked.findings = new Set(Array.isArray(kept?.findings) ? kept.findings : []);
}

function remember() {
  try {
    history.replaceState({ ...history.state, lmauditReport: { all: asked.all, findings: [...asked.findings] } }, "");
  } catch {
    // Too many, or not allowed here: then it is asked for again after a reload.
  }
}

const isMasked = (finding) => (finding.masked ?? []).length > 0;
const isVeiled = (finding, side) =>
  (finding.masked ?? []).includes(side) && !asked.all && !asked.findings.has(finding.key);

function ask(finding) {
  if (asked.findings.has(finding.key)) asked.findings.delete(finding.key);
  else asked.findings.add(finding.key);
  remember();
}

/** Texts in sentences and tables that the page holds from the start: each becomes a button that shows it. */
function armVeiledTexts() {
  for (const text of document.querySelectorAll(".veiled[data-text]")) {
    const button = make("button", { type: "button", class: "veil-one", title: "Show this masked text" });
    text.dataset.veiled = text.textContent;
    text.replaceWith(button);
    button.append(text);
    button.addEventListener("click", () => unveil(text, text.textContent === text.dataset.veiled));
  }
}

function unveil(text, shown) {
  text.textContent = shown ? text.dataset.text : text.dataset.veiled;
  text.parentElement.title = shown ? "Mask this text" : "Show this masked text";
}

/** The bar at the top, which shows or masks everything at once. */
function armVeilBar(redraw) {
  const bar = document.getElementById("veil");
  const button = document.getElementById("veil-all");
  const texts = document.querySelectorAll(".veiled[data-text]");
  bar.hidden = texts.length === 0 && !FINDINGS.some(isMasked);
  const tell = () => {
    document.getElementById("veil-says").textContent = asked.all
      ? "Texts that may offend are shown."
      : "Texts that may offend are masked.";
    button.textContent = asked.all ? "Mask them" : "Show all of them";
    button.setAttribute("aria-pressed", String(asked.all));
    for (const text of texts) unveil(text, asked.all);
  };
  button.addEventListener("click", () => {
    asked.all = !asked.all;
    if (!asked.all) asked.findings.clear();
    remember();
    tell();
    redraw();
  });
  tell();
}
