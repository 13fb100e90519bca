// SPDX-License-Identifier: Apache-2.0
/** The page of two recordings. */
import type { DiffReport } from "../documents";

export function DiffPage({ diff }: { diff: DiffReport }) {
  return <p>{diff.diff.headline}</p>;
}
