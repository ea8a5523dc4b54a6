// What stands on the page. Everything that came from elsewhere is set as text, never as markup.

export const $ = (id) => document.getElementById(id);

const VIEWS = ["loading", "refused", "warning", "rating", "break", "finish"];

export function showView(name) {
  for (const view of VIEWS) $(view).hidden = view !== name;
  $("bar").hidden = !["rating", "break", "finish"].includes(name);
  const heading = $(name).querySelector("h1");
  if (name !== "rating") {
    heading.focus();
    document.title = heading.textContent;
    scrollTo(0, 0);
  }
}

// All but the first letter of each word hidden, as in reports.
export function masked(text) {
  return text.replace(/(?<=[\p{L}\p{M}\p{N}_])[\p{L}\p{M}\p{N}_]/gu, "·");
}

// Control characters have pictures of their own; a browser would show nothing.
export function visible(text) {
  return text.replace(/[\u0000-\u0008\u000b-\u001f]/g, (c) => String.fromCharCode(0x2400 + c.charCodeAt(0)))
    .replace(/\u007f/g, "\u2421");
}

export function makeDigits(onRate) {
  for (let value = 0; value <= 10; value++) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = String(value);
    button.dataset.value = String(value);
    button.addEventListener("click", () => onRate(value));
    $("digits").append(button);
  }
}

// answer: {answered, value, comment}; text: undefined while it is on its way.
export function showPlace(at, nPlaces, answer, text, shown) {
  $("place").textContent = `Text ${at + 1} of ${nPlaces}`;
  document.title = `Text ${at + 1} of ${nPlaces}`;
  showText(text, shown);
  for (const button of $("digits").children) {
    button.setAttribute("aria-pressed", String(answer.answered && answer.value === Number(button.dataset.value)));
  }
  choose(answer.value);
  $("back").disabled = at === 0;
  $("forward").disabled = !answer.answered;
  $("skip").setAttribute("aria-pressed", String(answer.answered && answer.value === null));
  $("remark").classList.toggle("has", answer.comment !== "");
  $("remark").firstChild.textContent = answer.comment === "" ? "Comment " : "Edit comment ";
}

export function showText(text, shown) {
  const missing = text === undefined;
  const words = $("words");
  words.textContent = missing ? "Waiting for the text …" : visible(shown ? text : masked(text));
  words.lang = ""; // whatever it is written in
  words.classList.toggle("masked", !shown && !missing);
  $("veil-says").hidden = shown;
  $("show").firstChild.textContent = shown ? "Hide texts " : "Show texts ";
  for (const control of [...$("digits").children, $("slider")]) control.disabled = missing || !shown;
  $("skip").disabled = missing;
  $("text").scrollTop = 0;
  $("rating").dataset.place = missing ? "" : $("place").textContent;
}

// null: nothing is chosen, and the slider shows no thumb that might suggest something.
export function choose(value) {
  const chosen = value !== null && value !== undefined;
  $("slider").value = chosen ? value : 5;
  $("slider").classList.toggle("unset", !chosen);
  $("slider").setAttribute("aria-valuetext", chosen ? String(value) : "nothing chosen");
  $("chosen").textContent = chosen ? String(value) : "–";
  $("store").disabled = !chosen;
}

export function showProgress(nAnswered, nPlaces, paceMs) {
  $("progress").max = nPlaces;
  $("progress").value = nAnswered;
  $("left").textContent = timeLeft(nPlaces - nAnswered, paceMs);
}

function timeLeft(nLeft, paceMs) {
  if (nLeft === 0) return "";
  if (paceMs.length < 3) return `${nLeft} left`;
  const sorted = [...paceMs].sort((a, b) => a - b);
  const minutes = Math.ceil((nLeft * sorted[sorted.length >> 1]) / 60000);
  return minutes <= 1 ? "about a minute left" : `about ${minutes} min left`;
}

export function showConnection(queue) {
  const n = queue.events.length;
  const answers = n === 1 ? "1 answer waits" : `${n} answers wait`;
  const problems = [];
  if (queue.failures > 0) {
    const keep = queue.kept ? "" : " Please leave this page open until then.";
    problems.push(n === 0 ? "No connection." :
      `No connection: ${answers} here and will be sent as soon as it is back. You can go on.${keep}`);
  }
  if (queue.nRefused > 0) problems.push(`${queue.nRefused} changes could not be stored; please tell who sent you the link.`);
  const says = problems.join(" ");
  if ($("connection").textContent !== says) $("connection").textContent = says;
  document.body.dataset.unsent = String(n);
}

// For those who hear the page.
export function say(words) {
  $("said").textContent = words;
}
