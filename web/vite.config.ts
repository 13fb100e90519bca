// SPDX-License-Identifier: Apache-2.0
// Builds exactly two files, dist/app.js and dist/app.css, that a page has inside: one classic script, no imports.
import type { Plugin } from "vite";
import { defineConfig } from "vite";

const MOST_BYTES = 250_000; // every report has the script inside

const limit: Plugin = {
  name: "limit",
  generateBundle(_options, bundle) {
    const script = bundle["app.js"];
    const bytes = script?.type === "chunk" ? new TextEncoder().encode(script.code).length : 0;
    if (bytes > MOST_BYTES) this.error(`app.js has ${bytes} bytes; at most ${MOST_BYTES} are allowed`);
  },
};

export default defineConfig({
  define: { "process.env.NODE_ENV": '"production"' },
  // Calls of h() are shorter than those that TypeScript's "react-jsx" makes: 6 kB in all.
  oxc: {
    jsx: { runtime: "classic", pragma: "h_", pragmaFrag: "Fragment_" },
    jsxInject: "import { h as h_, Fragment as Fragment_ } from 'preact'",
  },
  plugins: [limit],
  build: {
    target: "es2022",
    lib: { entry: "src/main.tsx", formats: ["iife"], name: "ttmem", fileName: () => "app.js", cssFileName: "app" },
  },
});
