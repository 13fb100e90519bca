// SPDX-License-Identifier: Apache-2.0
// Builds a script and a style sheet that a page has inside: one classic script, no imports. `--mode report` makes those
// of pages that are files, `--mode live` those of the live page.
import type { Plugin } from "vite";
import { defineConfig } from "vite";

const MOST_BYTES = 250_000; // every report has the script inside

const limit: Plugin = {
  name: "limit",
  generateBundle(_options, bundle) {
    for (const script of Object.values(bundle)) {
      const bytes = script.type === "chunk" ? new TextEncoder().encode(script.code).length : 0;
      if (bytes > MOST_BYTES) this.error(`${script.fileName} has ${bytes} bytes; at most ${MOST_BYTES} are allowed`);
    }
  },
};

export default defineConfig(({ mode }) => ({
  define: { "process.env.NODE_ENV": '"production"' },
  // Calls of h() are shorter than those that TypeScript's "react-jsx" makes: 6 kB in all.
  oxc: {
    jsx: { runtime: "classic", pragma: "h_", pragmaFrag: "Fragment_" },
    jsxInject: "import { h as h_, Fragment as Fragment_ } from 'preact'",
  },
  plugins: [limit],
  build: {
    target: "es2022",
    emptyOutDir: false, // the other page is there, too
    lib: { entry: `src/${mode}.tsx`, formats: ["iife"], name: "ttmem", fileName: () => `${mode}.js`, cssFileName: mode },
  },
}));
