// SPDX-License-Identifier: Apache-2.0
/** A button that copies a text, and says so. */
import { useState } from "preact/hooks";

export function CopyButton({ text, label }: { text: () => string; label: string }) {
  const [state, setState] = useState<"" | "copied" | "failed">("");
  const copy = async () => {
    setState((await copyText(text())) ? "copied" : "failed");
    setTimeout(() => setState(""), 1500);
  };
  return (
    <button type="button" class="quiet copy" onClick={() => void copy()} aria-live="polite">
      {state === "" ? label : state === "copied" ? "Copied" : "The browser refused to copy"}
    </button>
  );
}

/** Pages in a file have no clipboard in some browsers; the older way works there. */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    area.style.position = "fixed";
    area.style.opacity = "0";
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}
