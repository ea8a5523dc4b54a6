"use strict";

// Texts of models, datasets and people. They are hostile: they only ever become text nodes, in isolation, with
// everything that a reader could not see spelt out. (Same rules as lmaudit.records.printable and masked.)

const ODD = /[\p{C}\p{Zl}\p{Zp}]|(?! )\p{Zs}/gu;
const INNER_LETTER = /(?<=[\p{L}\p{N}\p{M}_])[\p{L}\p{N}\p{M}_]/gu;
const SPELT = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };
const FOLD = 600; // characters; longer texts are folded

function spelt(character) {
  const code = character.codePointAt(0);
  const [letter, digits] = code < 0x100 ? ["x", 2] : code < 0x10000 ? ["u", 4] : ["U", 8];
  return SPELT[character] ?? `\\${letter}${code.toString(16).padStart(digits, "0")}`;
}

const printable = (text) => text.replace(ODD, spelt);
const maskedText = (text) => text.replace(INNER_LETTER, "·");
const shownText = (text, veiled) => printable(veiled ? maskedText(text) : text);

/** The beginning of a text; never half of a character that takes two places. */
function beginning(text, length) {
  const cut = text.slice(0, length);
  return /[\ud800-\udbff]$/.test(cut) ? cut.slice(0, -1) : cut;
}

/** An element; attributes that are null or false are left out, children are elements or text. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes))
    if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

const isolated = (text) => make("bdi", { class: "said" }, text);

/** A text in quotation marks, as short as a row of a table can bear. */
function brief(text, veiled, length = 160) {
  const cut = beginning(text, length);
  return make("span", {}, "“", isolated(shownText(cut, veiled)), cut.length < text.length ? "…”" : "”");
}

/** A whole text in quotation marks; one that is very long is folded until somebody asks for it. */
function quoted(text, veiled) {
  if (text.length <= FOLD) return make("span", { class: "quoted" }, "“", isolated(shownText(text, veiled)), "”");
  const words = isolated(shownText(beginning(text, FOLD), veiled));
  const button = make("button", { type: "button", class: "small" }, `Show all ${text.length.toLocaleString("en")} characters`);
  const end = document.createTextNode("…” ");
  button.addEventListener("click", () => {
    words.textContent = shownText(text, veiled);
    end.textContent = "” ";
    button.remove();
  });
  return make("span", { class: "quoted" }, "“", words, end, button);
}

function figure(value, digits = 2) {
  if (value === null || value === undefined) return "–";
  return value.toFixed(digits).replace("-", "−");
}

const count = (n, one, many = `${one}s`) => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
