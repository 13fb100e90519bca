// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { type ComponentChildren, toChildArray, type VNode } from "preact";
import type { ProcessPhases } from "../src/documents";
import { PhasesSection, unlistedPhases } from "../src/live/processes_view";

function phasesOf(more: Partial<ProcessPhases>): ProcessPhases {
  return { pid: 7, start: 1, state: "tracked", left_out: 0, missed: 0, open: [], ended: [], ...more };
}

/** The texts in the soft lines of the panel. */
function softLines(...processes: ProcessPhases[]): string[] | null {
  const panel = PhasesSection({ processes }) as VNode<{ children: ComponentChildren }> | null;
  if (panel === null) return null;
  const children = toChildArray(panel.props.children) as VNode<{ class?: string; children?: ComponentChildren }>[];
  return children.filter((one) => one.props.class === "live-soft").map((one) => String(one.props.children));
}

test("phases that are not listed are counted", () => {
  expect(unlistedPhases([phasesOf({})])).toBe("");
  expect(unlistedPhases([phasesOf({ missed: 1 })])).toBe("1 phase began and ended among lost records.");
  expect(unlistedPhases([phasesOf({ left_out: 1 })])).toBe("Data of phases was left out once, because a limit was reached.");
  expect(unlistedPhases([phasesOf({ missed: 2000, left_out: 1 }), phasesOf({ missed: 1, left_out: 1 })])).toBe(
    "2,001 phases began and ended among lost records. Data of phases was left out 2 times, because a limit was reached.",
  );
});

test("the panel of phases is there if some are listed, or only counted", () => {
  const open = [{ path: "decode", since: 1, complete: true, rows: [] }];
  expect(softLines()).toBe(null);
  expect(softLines(phasesOf({}))).toBe(null);
  expect(softLines(phasesOf({ open }))).toEqual([]);
  expect(softLines(phasesOf({ missed: 3 }))).toEqual(["3 phases began and ended among lost records."]);
  expect(softLines(phasesOf({ left_out: 3 }))).toEqual([unlistedPhases([phasesOf({ left_out: 3 })])]);
});
