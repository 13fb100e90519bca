// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { address, compact, duration, grouped, moment, percent, plural, signed } from "../src/parts/format";
import * as format from "../src/parts/format";
import cases from "./sizes.json";

describe("sizes", () => {
  // tests/unit/test_units.py has the same cases.
  it.each(cases.sizes)("are written as Python writes them: $size", ({ size, human, short, exact }) => {
    expect([format.human(size), format.short(size), format.exact(size)]).toEqual([human, short, exact]);
  });
  it.each(cases.shares)("a share of $part", ({ part, text }) => expect(format.complete(part)).toBe(text));
  it("that are not known have a dash", () => {
    expect([format.human(null), format.short(null), format.exact(null), address(null)]).toEqual(["-", "-", "-", "-"]);
    expect(format.bytesOf(null)).toBe("not known");
  });
  it("that are lower limits have a sign", () => {
    expect([format.peakText("1 KiB", null), format.peakText("1 KiB", undefined)]).toEqual(["1 KiB", "1 KiB"]);
    expect(format.peakText("1 KiB", 2048)).toBe("≥ 1 KiB");
    expect(format.peakBytes(1024, null)).toBe("1,024 B");
    expect(format.peakBytes(1024, 2048)).toBe("≥ 1,024 B, at most 2,048 B; records were lost");
  });
  it("that changed have a sign", () =>
    expect([signed(1024), signed(-1024), signed(0)]).toEqual(["+1 KiB", "-1 KiB", "0 B"]));
});

describe("other values", () => {
  it("addresses are hexadecimal", () => expect(address(0x1a40)).toBe("0x1a40"));
  it("counts", () => {
    expect([grouped(1234567), grouped(-1000), grouped(999)]).toEqual(["1,234,567", "-1,000", "999"]);
    expect([compact(950), compact(12_500), compact(999_960), compact(2.25)]).toEqual(["950", "12.5 k", "1 M", "2.3"]);
    expect([plural(1, "buffer"), plural(2000, "buffer")]).toEqual(["1 buffer", "2,000 buffers"]);
  });
  it("lengths of time", () => {
    const given = [0, 850, 12_345, 12_345_678, 999_700_000, 4.214e9, 200e9, 7260e9, null];
    expect(given.map(duration)).toEqual([
      "0 ns",
      "850 ns",
      "12.3 µs",
      "12.3 ms",
      "1 s",
      "4.21 s",
      "3 min 20 s",
      "2 h 1 min",
      "-",
    ]);
  });
  it("moments have the decimals that the distance needs", () => {
    expect(moment(12_345_678_901)).toBe("12.346 s");
    expect(moment(12_345_678_901, 1)).toBe("12.345678901 s");
    expect(moment(12_345_678_901, 1e9)).toBe("12 s");
    expect(moment(3_723_999_600_000, 1e6)).toBe("1:02:04.000");
    expect(moment(123_250_000_000, 1e7)).toBe("2:03.25");
  });
  it("a part is never shown as all", () => {
    expect([percent(0.999), percent(1), percent(0.0001), percent(0), percent(0.034), percent(0.37)]).toEqual([
      "99.9 %",
      "100 %",
      "< 0.1 %",
      "0 %",
      "3.4 %",
      "37 %",
    ]);
  });
});
