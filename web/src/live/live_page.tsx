// SPDX-License-Identifier: Apache-2.0
/** The live pages of `ttmem web`. */
import type { LiveStart } from "../data/embedded";

export function LivePage({ page }: { page: LiveStart }) {
  return <p>{page.page}</p>;
}
