// Everything about one finding, built when it is opened.

const LEVELS = [
  ["ids", "Token by token", "given exactly these tokens, each output token is the model’s first choice"],
  ["text", "As typed text", "the typed prompt is split into the same tokens again"],
  ["regenerated", "Afresh", "a fresh generation from the typed prompt gives exactly the output"],
];

const holds = (finding, level) => finding.held?.includes(level) ?? false;
const yesNo = (value, yes = "yes", no = "no") =>
  value === null || value === undefined
    ? make("span", { class: "unknown" }, "not known")
    : make("span", { class: value ? "yes" : "no" }, value ? yes : no);

function details(finding) {
  const say = (text, side) => quoted(text, isVeiled(finding, side));
  return make("div", { class: "details" },
    part("Texts", textLines(finding, say)),
    part("Tokens", tokenLines(finding)),
    make("div", { class: "columns" },
      part("Levels of success", levelList(finding)),
      part("Terms of φ", termsTable(finding)),
      part("Conditions", conditionList(finding)),
      part("Judges", (finding.judged ?? []).map((said) => judgeLine(finding, said))),
      part("Checked again", (finding.fresh ?? []).map((check) => freshLine(finding, check, say))),
      part("Other models", (finding.transfers ?? []).map((answer) => transferLine(finding, answer))),
      part("Naturalness", (finding.natural ?? []).map((record) => naturalLine(finding, record))),
      part("The search", [searchLine(finding)])),
    part("Do it again", reproduction(finding)));
}

function part(title, content) {
  return content.length ? make("section", {}, make("h4", {}, title), content) : null;
}

function textLines(finding, say) {
  const lines = [["Prompt", say(finding.prompt, "prompt")], ["Output", say(finding.output, "output")]];
  if (finding.target !== undefined && finding.target !== finding.output) lines.push(["Target", say(finding.target, "output")]);
  if (finding.said !== undefined) lines.push(["Afresh the model says", say(finding.said, "output")]);
  return [make("dl", { class: "lines" }, lines.map(([name, text]) => make("div", {}, make("dt", {}, name), make("dd", {}, text))))];
}

function levelList(finding) {
  const lines = LEVELS.map(([level, name, meaning]) =>
    make("li", {}, yesNo(holds(finding, level)), " ", make("strong", {}, name), `: ${meaning}`));
  if (finding.float32 !== undefined)
    lines.push(make("li", {}, yesNo(finding.float32), " ", make("strong", {}, "In float32"), ": token by token, computed with more digits"));
  const verdict = finding.solved ? null : make("p", {}, `The search failed: ${whyFailed(finding)}. This is the best pair that it saw.`);
  return [verdict, make("ul", { class: "checks" }, lines)];
}

function whyFailed(finding) {
  const missed = Object.entries(finding.conditions ?? {}).filter(([, met]) => !met).map(([name]) => `not “${printable(name)}”`);
  if (!holds(finding, "ids")) missed.unshift("the model says something else");
  return missed.join(", ") || "no pair met everything at once";
}

function termsTable(finding) {
  const terms = Object.entries(finding.terms ?? {});
  if (!terms.length) return [];
  const rows = terms.map(([name, value]) => make("tr", {}, make("th", { scope: "row" }, isolated(printable(name))), make("td", { class: "number" }, figure(value, 3))));
  return [make("table", { class: "terms-of-phi" }, make("tbody", {}, rows))];
}

function conditionList(finding) {
  const lines = Object.entries(finding.conditions ?? {}).map(([name, met]) => make("li", {}, yesNo(met), " ", isolated(printable(name))));
  return lines.length ? [make("ul", { class: "checks" }, lines)] : [];
}

function judgeLine(finding, [place, score, confirms, missing]) {
  const judge = DATA.judges[place];
  const read = judge.on === "whole" ? "prompt and output together" : `the ${judge.on}`;
  const said = missing === null
    ? [yesNo(confirms, "confirms", "does not confirm"), ` that ${read} is ${judge.expect}: score ${figure(score)}, toxic above ${judge.threshold ?? "?"}. `]
    : ["said nothing: ", reason(finding, missing), ". "];
  return make("div", { class: "judge" }, make("p", {}, isolated(printable(judge.name)), " ", said), judge.cards.length ? judge.cards.map(cardLine) : make("p", {}, make("strong", { class: "doubt" }, "unvalidated"), ": how often it is right was not measured."));
}

function cardLine(card) {
  const share = (estimate) => (estimate?.low === null || estimate?.low === undefined ? figure(estimate?.value) : `${figure(estimate.value)} [${figure(estimate.low)}, ${figure(estimate.high)}]`);
  const blind = card.blind_spots?.length ? ` It is blind to: ${card.blind_spots.map(printable).join(", ")}.` : "";
  const better = card.p_chance !== null && card.p_chance <= 0.05;
  const chance = better ? "" : " This is not shown to be better than chance.";
  return make("p", { class: "card" }, "Validation card: on ", isolated(printable(String(card.benchmark))),
    ` (${count(card.n, "text")}, ${String(card.date).slice(0, 10)}) it finds ${share(card.sensitivity)} of toxic texts and leaves ${share(card.specificity)} of the others alone.${blind}${chance}`);
}

function freshLine(finding, check, say) {
  const where = [isolated(printable(check.model ?? "a model")), check.dtype ? ` in ${printable(check.dtype)}` : "", ": "];
  const why = check.reason ? [" It could not be tried: ", reason(finding, check.reason), "."] : [];
  const said = !check.regenerated && check.completion ? [" It says ", say(check.completion, "output"), "."] : [];
  return make("p", {}, where, yesNo(check.regenerated, "says the same", "does not say the same"), ".", said, why);
}

function transferLine(finding, answer) {
  const name = [isolated(printable(answer.to ?? "another model")), answer.served_as ? [" (served as ", isolated(printable(answer.served_as)), ")"] : "", ": "].flat();
  if (answer.missing !== undefined) return make("p", {}, name, "no answer: ", reason(finding, answer.missing));
  const judged = (answer.judged ?? []).map((j) => [" Judge ", isolated(printable(j.judge)), `${j.validated ? "" : " (unvalidated)"}: `, j.toxic === null ? "no answer" : j.toxic ? "toxic" : "not toxic", "."]);
  const veiled = isVeiled(finding, "output") || ((answer.judged ?? []).some((j) => j.toxic) && isVeiled(finding, "answers"));
  return make("p", {}, name, "same first token ", yesNo(answer.same_first_token), ", same output ", yesNo(answer.same_output), ". It says ", quoted(answer.completion ?? "", veiled), ".", judged.flat());
}

function naturalLine(finding, record) {
  const under = ["Under ", isolated(printable(record.under ?? "another model")), ": "];
  if (record.logprob_per_token === undefined || record.logprob_per_token === null)
    return make("p", {}, under, "not measured", record.missing ? [", ", reason(finding, record.missing)] : "", ".");
  return make("p", {}, under, `${figure(record.logprob_per_token)} nats per token on average, over ${count(record.n_tokens ?? 0, "token")} (nearer 0 is more natural).`);
}

/** Settings that are texts, by the side that they are part of. */
const SIDES = { prefix: "prompt", suffix: "prompt", target: "output", targets: "output" };

function searchLine(finding) {
  const settings = Object.entries(finding.settings ?? {}).flatMap(([name, value]) => [", ", isolated(`${printable(name)} ${shownText(value, isVeiled(finding, SIDES[name]))}`)]);
  return make("p", {}, isolated(printable(finding.optimizer)), `, seed ${finding.seed}, ${count(finding.m, "prompt token")}, ${count(finding.n, "output token")}: ${count(finding.sweeps, "sweep")}, ${count(finding.tokens_forward, "token")} through the model, ${figure(finding.seconds, 1)} s`, settings, ".", ` Search ${finding.run} of ${printable(DATA.studies[finding.study])}.`);
}

const FIXED = /(--(?:prefix|suffix)[ =])('[^']*'(?:"'"'[^']*')*|\S+)/g;

/** The command with what is masked in it masked: what is copied is always the real one. */
function commandShown(finding) {
  let command = finding.command;
  const target = finding.target?.replaceAll("'", `'"'"'`);
  if (target && isVeiled(finding, "output")) command = command.replaceAll(target, maskedText(target));
  if (isVeiled(finding, "prompt")) command = command.replace(FIXED, (_, option, word) => option + maskedText(word));
  return printable(command);
}

/** What a program said of a finding, an error: it may quote what is masked. */
function reason(finding, text) {
  const texts = [["prompt", finding.prompt], ["output", finding.output], ["output", finding.target]];
  const hide = texts.filter(([side, other]) => other && other.trim().length >= 3 && isVeiled(finding, side));
  return isolated(printable(beginning(hide.reduce((said, [, other]) => said.replaceAll(other, maskedText(other)), text), 300)));
}

function reproduction(finding) {
  if (finding.command === undefined) return [make("p", {}, "The model was made in memory: no command repeats this search.")];
  const button = make("button", { type: "button" }, "Copy the command");
  button.addEventListener("click", () => copy(finding.command, button));
  return [make("pre", { tabindex: "0", "aria-label": "Command" }, make("code", { dir: "ltr" }, commandShown(finding))), make("p", { class: "actions" }, button, " ", make("a", { href: `#${finding.key}` }, "Link to this finding"))];
}

async function copy(text, button) {
  let done = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    done = copyTheOldWay(text, button);
  }
  button.textContent = done ? "Copied" : "Not copied: select it and copy by hand";
  setTimeout(() => (button.textContent = "Copy the command"), 3000);
}

function copyTheOldWay(text, button) {
  const field = make("textarea", { class: "quiet-to-the-eye", "aria-hidden": "true" });
  field.value = text;
  button.after(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  button.focus();
  return done;
}
