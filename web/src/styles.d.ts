// SPDX-License-Identifier: Apache-2.0
// Vite puts imported style sheets into dist/app.css.
declare module "*.css";
