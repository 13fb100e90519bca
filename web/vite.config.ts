// SPDX-License-Identifier: Apache-2.0
// Builds exactly two files, dist/app.js and dist/app.css, that a page has inside: one classic script, no imports.
import { defineConfig } from "vitest/config";

export default defineConfig({
  define: { "process.env.NODE_ENV": '"production"' },
  build: {
    target: "es2022",
    lib: { entry: "src/main.tsx", formats: ["iife"], name: "ttmem", fileName: () => "app.js", cssFileName: "app" },
    sourcemap: false,
    reportCompressedSize: true,
    chunkSizeWarningLimit: 250,
    emptyOutDir: true,
  },
  test: { include: ["tests/**/*.test.ts", "tests/**/*.test.tsx"], environment: "node" },
});
