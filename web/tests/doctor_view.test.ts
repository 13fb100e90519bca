// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { hintOf } from "../src/live/doctor_view";

test("a hint about an option names the command that has it", () => {
  expect(hintOf("name an interpreter with --python PATH")).toBe(
    "name an interpreter with `ttmem doctor --python PATH`",
  );
  expect(hintOf("unset TTMEM_SOCKET, or omit --socket")).toBe("unset TTMEM_SOCKET, or omit --socket");
});
