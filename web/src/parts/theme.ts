// SPDX-License-Identifier: Apache-2.0
/** Light or dark: as the system has it, until the reader chooses. */

export type Theme = "light" | "dark";
const KEY = "ttmem-theme";
const listeners = new Set<() => void>();

export function currentTheme(): Theme {
  const chosen = document.documentElement.dataset.theme;
  if (chosen === "light" || chosen === "dark") return chosen;
  return window.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

export function applySavedTheme(): void {
  const saved = storage()?.getItem(KEY);
  if (saved === "light" || saved === "dark") document.documentElement.dataset.theme = saved;
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", notify);
}

export function toggleTheme(): void {
  const next: Theme = currentTheme() === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  storage()?.setItem(KEY, next);
  notify();
}

/** Calls back when the colours change, because a canvas does not follow the style sheet by itself. */
export function onThemeChange(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** The value of a custom property of the style sheet, such as "--text". */
export function cssValue(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function notify(): void {
  for (const listener of listeners) listener();
}

/** Browsers may refuse storage to a page that was opened from a file. */
function storage(): Storage | null {
  try {
    return window.localStorage;
  } catch {
    return null;
  }
}
