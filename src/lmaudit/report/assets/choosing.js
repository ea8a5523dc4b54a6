// Which findings are listed, and in which order.

const DATA = JSON.parse(document.getElementById("data").textContent);
const FINDINGS = DATA.findings;
FINDINGS.forEach((finding, place) => {
  finding.key = `finding-${finding.study + 1}-${finding.run}`;
  finding.place = place;
});

const view = { query: "", level: "solved", optimizer: "", target: "", judge: "", study: "", sort: "place", down: false, page: 0, size: 50 };
const opened = new Set();

const confirmations = (finding) => (finding.judged ?? []).map(([, , confirms]) => confirms);
const searchable = (finding) =>
  (finding.haystack ??= [finding.prompt, finding.output, finding.said, finding.target].filter(Boolean).join("\n").toLowerCase());

const JUDGED = { yes: true, no: false, none: null };
const TESTS = {
  level: (f, level) => (level === "all" ? true : level === "failed" ? !f.solved : f.solved && (level === "solved" || holds(f, level))),
  optimizer: (f, name) => f.optimizer === TAGS.optimizer[name],
  target: (f, number) => f.target === TAGS.target[number],
  judge: (f, says) => confirmations(f).includes(JUDGED[says]),
  study: (f, number) => f.study === Number(number),
  query: (f, words) => searchable(f).includes(words.toLowerCase()),
};

/** What can be chosen by number; the numbers stand in the page instead of the texts. */
const TAGS = {
  optimizer: [...new Set(FINDINGS.map((f) => f.optimizer))],
  target: [...new Set(FINDINGS.map((f) => f.target).filter((target) => target !== undefined))],
};

const KEYS = {
  place: (f) => f.place,
  pair: (f) => f.prompt,
  output: (f) => f.output,
  levels: (f) => (f.solved ? 8 : 0) + (holds(f, "regenerated") ? 4 : 0) + (holds(f, "text") ? 2 : 0) + (holds(f, "ids") ? 1 : 0),
  logprob: (f) => f.logprob,
  margin: (f) => f.margin,
  optimizer: (f) => f.optimizer,
  m: (f) => f.m,
  seconds: (f) => f.seconds,
  judge: (f) => confirmations(f).filter((confirms) => confirms === true).length,
  study: (f) => f.study,
};

function chosen() {
  const asks = Object.entries(TESTS).filter(([name]) => view[name] !== "");
  const listed = FINDINGS.filter((finding) => asks.every(([name, test]) => test(finding, view[name])));
  const key = KEYS[view.sort];
  const sign = view.down ? -1 : 1;
  return listed.map((f) => [key(f), f]).sort(([a, f], [b, g]) => compare(a, b, sign) || f.place - g.place).map(([, f]) => f);
}

/** Numbers and texts in order; what is not known comes last in both directions. */
function compare(a, b, sign) {
  if (a === undefined || a === null) return b === undefined || b === null ? 0 : 1;
  if (b === undefined || b === null) return -1;
  return a < b ? -sign : a > b ? sign : 0;
}
