// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { TextFitter } from "../src/parts/canvas";

describe("texts in boxes", () => {
  const texts = new TextFitter((text) => (text === "i" ? 2 : 6));

  it("are whole if they fit", () => {
    expect(texts.fit("forward", 42)).toBe("forward");
    expect(texts.width("iffi")).toBe(16);
  });

  it("end with an ellipsis that fits too", () => {
    expect(texts.fit("forward", 41)).toBe("forwa…");
    expect(texts.width("forwa…")).toBeLessThanOrEqual(41);
  });

  it("are left out if nearly nothing of them fits", () => {
    expect(texts.fit("forward", 12)).toBe("");
    expect(texts.fit("", 12)).toBe("");
  });

  it("are never cut in the middle of a character", () => {
    expect(texts.fit("ab\u{1f600}cd", 24)).toBe("ab…");
  });
});
