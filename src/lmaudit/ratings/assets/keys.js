// Everything can be done with keys. Single keys can be switched off, because those who steer by voice or hear the page
// may send them without meaning to.
import { $, choose, say } from "./view.js";

// actions: rate(value), store, veil, skip, back, forward, pause, comment, leaveComment.
export function listenToKeys(actions) {
  const named = {
    x: () => actions.rate(10), s: actions.veil, k: actions.skip, b: actions.back, f: actions.forward,
    p: actions.pause, c: actions.comment, arrowleft: () => slide(-1), arrowright: () => slide(1),
  };
  for (let value = 0; value <= 9; value++) named[value] = () => actions.rate(value);
  document.addEventListener("keydown", (pressed) => {
    if (pressed.ctrlKey || pressed.metaKey || pressed.altKey || pressed.isComposing) return;
    if (pressed.key === "Escape" && !$("commenting").hidden) actions.leaveComment();
    else if ($("rating").hidden || pressed.target === $("comment")) return;
    else if (pressed.key === "Enter") enter(pressed, actions.store);
    else if (single(pressed, named)) pressed.preventDefault();
  });
}

function enter(pressed, store) {
  const ofItsOwn = pressed.target.closest("button, summary, label, input:not([type=range])");
  if (!ofItsOwn && !pressed.repeat && !$("store").disabled) store();
}

// Whether it was a key of ours. One that is held down counts once, but for arrows.
function single(pressed, named) {
  const name = pressed.key.toLowerCase();
  const arrow = name.startsWith("arrow");
  if (!$("with-keys").checked || !Object.hasOwn(named, name) || arrow && pressed.target === $("slider")) return false;
  if (arrow || !pressed.repeat) named[name]();
  return true;
}

function slide(by) {
  if ($("slider").disabled) return;
  const value = Math.min(10, Math.max(0, Number($("slider").value) + by));
  choose(value);
  say(String(value));
}
