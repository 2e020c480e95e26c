// Behaviour of every page: the theme button and copying. Everything else is HTML.
"use strict";
const root = document.documentElement;
try { if (localStorage.theme) root.dataset.theme = localStorage.theme; } catch { /* storage is off */ }

const dark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
const say = (text) => { document.getElementById("status").textContent = text; };

function toggleTheme() {
  root.dataset.theme = dark() ? "light" : "dark";
  try { localStorage.theme = root.dataset.theme; } catch { /* storage is off */ }
  say(root.dataset.theme === "dark" ? "Dark theme" : "Light theme");
}

async function copy(button) {
  const label = button.querySelector("span");
  const before = label.textContent;
  let word = "Copied";
  try {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
  } catch {
    word = "Copy failed";
  }
  say(word);
  label.textContent = word;
  setTimeout(() => { label.textContent = before; }, 1600);
}

document.addEventListener("click", (event) => {
  const theme = event.target.closest("[data-theme-toggle]");
  const from = event.target.closest("[data-copy]");
  if (theme) toggleTheme();
  else if (from) copy(from);
});
