// SPDX-License-Identifier: Apache-2.0
// Vite puts imported style sheets into the style sheet of the page.
declare module "*.css";
