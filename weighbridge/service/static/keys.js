// Keys, and the lease of the ticket on the page. Everything here is a convenience: without it the
// page works the same, by mouse, by Tab and Enter, and the lease lasts as long.
"use strict";

// The server's table of keys: it makes the handlers, the hints, `aria-keyshortcuts` and the dialog.
// An action is done by whatever the page marks with `data-key`.
const keys = JSON.parse(document.body.dataset.keys);
const questions = [...document.querySelectorAll("fieldset[data-question]")]
  .filter((question) => question.querySelector("input[type=radio]:enabled"));
let active = Math.max(0, questions.findIndex((question) => !answerOf(question)));

function say(text) {
  document.getElementById("live").textContent = text;
}

function answerOf(question) {
  return question.querySelector("input[type=radio]:checked");
}

function targetOf(action) {
  return document.querySelector(`[data-key="${action}"]`);
}

function hint(element, key) {
  element.setAttribute("aria-keyshortcuts", key);
  const shown = document.createElement("kbd");
  shown.textContent = key;
  shown.setAttribute("aria-hidden", "true");  // what is read aloud is aria-keyshortcuts
  const label = element.closest("label");
  const isField = element.matches("input, textarea");
  (isField && label ? label.querySelector("span") || label : element).append(shown);
}

function activate(index) {
  active = index;
  questions.forEach((question, place) => {
    question.classList.toggle("active", questions.length > 1 && place === index);
    question.querySelectorAll("kbd").forEach((shown) => shown.remove());
    question.querySelectorAll("input[type=radio]").forEach((radio, option) => {
      radio.removeAttribute("aria-keyshortcuts");
      if (place === index && option < 9) hint(radio, String(option + 1));
    });
  });
}

function choose(digit) {
  const question = questions[active];
  const radio = question && question.querySelectorAll("input[type=radio]")[digit - 1];
  if (!radio) return;
  radio.checked = true;
  const legend = (element) => element.querySelector("legend").firstChild.textContent.trim();
  const next = questions.findIndex((other) => !answerOf(other));
  const then = next < 0 ? "" : ` Next: ${legend(questions[next])}.`;
  say(`${legend(question)}: ${radio.closest("label").querySelector("span").firstChild.textContent.trim()}.${then}`);
  if (next >= 0) activate(next);
}

function perform(action) {
  if (action === "help") return showHelp();
  const target = targetOf(action);
  if (!target) return false;
  if (target.matches("input, textarea")) target.focus();
  else if (target.form && target.type === "submit") target.form.requestSubmit(target);
  else target.click();
  return true;
}

function showHelp() {
  const dialog = document.getElementById("keys");
  if (!dialog.open) dialog.showModal();
  return true;
}

function fillHelp() {
  const rows = keys.filter((row) => row.action === "help" || targetOf(row.action));
  if (questions.length) rows.unshift({ key: "1 to 9", does: "Choose an option" });
  for (const { key, does } of rows) {
    const row = document.querySelector("#keys tbody").insertRow();
    row.insertCell().append(Object.assign(document.createElement("kbd"), { textContent: key }));
    row.insertCell().append(does);
  }
}

function isTyping(element) {
  // A digit on a focused radio button is ours; letters in a box are the writer's.
  return element.matches("input:not([type=radio], [type=checkbox]), textarea, select, [contenteditable]");
}

function onKey(event) {
  if (event.ctrlKey || event.altKey || event.metaKey || event.isComposing || event.repeat) return;
  if (isTyping(event.target) || document.querySelector("dialog[open]")) return;
  if (/^[1-9]$/.test(event.key) && questions.length) {
    event.preventDefault();
    choose(Number(event.key));
    return;
  }
  // Enter on a link or a button is theirs, as everywhere.
  if (event.key === "Enter" && event.target.closest("a, button, summary")) return;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const row = keys.find((candidate) => candidate.key === key);
  if (row && perform(row.action)) event.preventDefault();
}

if (keys.length) {
  document.addEventListener("keydown", onKey);
  keys.forEach(({ action, key }) => targetOf(action) && hint(targetOf(action), key));
  questions.forEach((question, place) => question.addEventListener("focusin", () => activate(place)));
  if (questions.length) activate(active);
  fillHelp();
}

// The lease. It is prolonged only for somebody who is there: an idle tab must not hoard tickets.
const lease = document.getElementById("lease");
const announced = document.querySelector("[data-announce]");

function keepLease() {
  const shown = lease.querySelector(".left");
  const keep = lease.querySelector("form");
  const warnBelow = 60;
  const length = Number(lease.dataset.length);
  let end = performance.now() / 1000 + Number(lease.dataset.left);
  let isThere = false, isWarned = false, isAsking = false, isLost = false;
  const left = () => end - performance.now() / 1000;

  async function renew() {
    isAsking = true;
    try {
      const answer = await fetch(`${keep.getAttribute("action")}.json`, {
        method: "POST",
        body: new URLSearchParams(new FormData(keep)),
      });
      const told = await answer.json();
      if (answer.ok) end = performance.now() / 1000 + told.left_s;
      else if (answer.status === 409) { isLost = true; lost(told.problem); }
    } catch { /* offline for a moment: the next activity tries again */ }
    isThere = isWarned = isAsking = false;
  }

  function lost(problem) {
    shown.textContent = problem;
    lease.classList.add("ending");
    say(`${problem} What you have entered stays on the page.`);
  }

  for (const sign of ["keydown", "pointerdown", "pointermove", "wheel", "touchstart"]) {
    document.addEventListener(sign, () => { isThere = true; }, { passive: true });
  }
  setInterval(() => {
    if (isLost) return;
    const isLow = left() < warnBelow;
    if (isThere && !isAsking && left() < length * 2 / 3) renew();
    const minutes = Math.floor(Math.max(0, left()) / 60);
    const seconds = String(Math.floor(Math.max(0, left())) % 60).padStart(2, "0");
    shown.textContent = left() > 0 ? `Held for you: ${minutes}:${seconds}`
      : "No longer held for you; your answer counts unless somebody else takes the ticket.";
    lease.classList.toggle("ending", isLow);
    if (isLow && !isWarned && !isThere) {
      isWarned = true;
      say("This ticket is held for you for less than a minute. Press any key to keep it.");
    }
  }, 1000);
}

if (lease) keepLease();
if (announced) {
  announced.focus();
  say(announced.dataset.announce);
}
