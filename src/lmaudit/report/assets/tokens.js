// The tokens of a finding as spans, coloured by how likely each is; the numbers stand beneath, so nothing is told by
// colour alone.

const MOST_TOKENS = 300;
const STEPS = [
  [-0.7, "l0", "at least one in two"],
  [-2.3, "l1", "one in ten"],
  [-6.9, "l2", "one in a thousand"],
  [-11.5, "l3", "one in 100,000"],
  [-Infinity, "l4", "rarer"],
];

const likelihoodClass = (logprob) =>
  logprob === null ? "unknown" : STEPS.find(([least]) => logprob >= least)[1];

function tokenLines(finding) {
  const tokens = finding.tokens ?? [];
  if (!tokens.length) return [make("p", { class: "quiet" }, "How likely each token is was not recorded.")];
  const sides = [["prompt", 0], ["output", 1]];
  return [...sides.map(([side, number]) => tokenList(finding, side, tokens.filter((t) => t[1] === number))), legend()];
}

function tokenList(finding, side, tokens) {
  const list = make("ol", { class: "tokens", "aria-label": `Tokens of the ${side}` });
  const veiled = isVeiled(finding, side);
  const draw = (some, before) => {
    for (const token of some) {
      list.append(tokenItem(token, veiled, before));
      before = lastCharacter(token[0]);
    }
  };
  draw(tokens.slice(0, MOST_TOKENS), "");
  const rest = tokens.slice(MOST_TOKENS);
  const more = make("button", { type: "button", class: "small" }, `Show ${count(rest.length, "more token")}`);
  more.addEventListener("click", () => {
    draw(rest, lastCharacter(tokens[MOST_TOKENS - 1][0]));
    more.remove();
  });
  const name = make("p", { class: "side" }, side === "prompt" ? "Prompt" : "Output");
  return make("div", { class: "token-line" }, name, list, rest.length ? more : null);
}

const lastCharacter = (text) => Array.from(text).at(-1) ?? "";

/** A piece of a word is masked as the word is: its first letter shows only where the word begins. */
function pieceShown(text, veiled, before) {
  if (!veiled) return printable(text);
  return printable(Array.from(maskedText(before + text)).slice(Array.from(before).length).join(""));
}

function tokenItem([text, ofOutput, logprob, margin, best], veiled, before) {
  const first = !ofOutput || margin === null || margin >= 0; // a prompt is given: nobody asks the model for its tokens
  const word = make("span", { class: "word" }, isolated(pieceShown(beginning(text, 200), veiled, before) || "(empty)"));
  const values = [make("span", { class: "value" }, hidden("log p "), figure(logprob))];
  if (ofOutput && margin !== null) values.push(make("span", { class: "value" }, hidden("margin "), make("span", { "aria-hidden": "true" }, "Δ "), figure(margin)));
  if (!first && best !== null && best !== undefined)
    values.push(make("span", { class: "value best" }, "says ", isolated(pieceShown(beginning(best, 200), veiled, before))));
  return make("li", { class: `token ${likelihoodClass(logprob)}${first ? "" : " second"}` }, word, values);
}

const hidden = (text) => make("span", { class: "quiet-to-the-eye" }, text);

function legend() {
  const steps = STEPS.map(([, look, words]) => make("li", {}, make("span", { class: `swatch ${look}`, "aria-hidden": "true" }), words));
  return make("div", { class: "legend" },
    make("span", {}, "Probability of the token, given all before it:"), make("ul", {}, steps),
    make("span", {}, "Beneath: its logarithm (nats), then Δ, the margin over the best other token. A dashed frame: the model would say another token."));
}
