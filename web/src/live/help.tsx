// SPDX-License-Identifier: Apache-2.0
/** The keys of the live page, and how to reach it from elsewhere. */
import { useEffect, useRef } from "preact/hooks";
import type { LivePage } from "../documents";
import { CopyButton } from "../parts/copy_button";

const KEYS: readonly (readonly [keys: string, what: string])[] = [
  ["1 to 8", "choose a view"],
  ["[ and ]", "the chip before, the next chip"],
  ["/", "search in the view"],
  ["p", "pause, or continue"],
  ["t", "light or dark"],
  ["Tab, arrows, Enter", "move in tables and maps, choose"],
  ["Esc", "leave the search, zoom out, close this"],
  ["?", "this help"],
];

export function Help({ page, close }: { page: LivePage; close: () => void }) {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => box.current?.focus(), []);
  return (
    <div class="live-dim" onClick={(event) => event.target === event.currentTarget && close()}>
      <div class="live-help" role="dialog" aria-modal="true" aria-label="Help" tabIndex={-1} ref={box}>
        <h2>Keys</h2>
        <dl>
          {KEYS.map(([keys, what]) => [<dt key={keys}>{keys}</dt>, <dd key={what}>{what}</dd>])}
        </dl>
        <h2>This page from another machine</h2>
        {page.ssh === null ? (
          <p>This page listens on an address of the network. Its address with the token is where `ttmem web` was started.</p>
        ) : (
          <>
            <p>`ttmem web` listens on its own machine only. Forward its port with ssh, then open the address that it printed:</p>
            <p class="live-code">
              <code>{page.ssh}</code> <CopyButton text={() => page.ssh ?? ""} label="Copy" />
            </p>
          </>
        )}
        <p class="live-soft">
          The page only reads. It shows what {page.user === "" ? "the user who started it" : `the user ${page.user}`} may see. ttmem {page.ttmem}.
        </p>
        <button type="button" class="live-button" onClick={close}>
          Close
        </button>
      </div>
    </div>
  );
}
