// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { decodeColumns, inflate, Sections } from "../src/data/columns";
import type { PageColumn } from "../src/documents";

const WIDTHS = { u8: 1, u16: 2, u32: 4, i64: 8 };

/** The reverse of the decoder, written independently of it: differences, then byte planes. */
function encode(values: bigint[], column: PageColumn): Uint8Array<ArrayBuffer> {
  const width = WIDTHS[column.type];
  const out = new Uint8Array(width * values.length);
  values.forEach((value, i) => {
    const stored = BigInt.asUintN(8 * width, column.delta && i > 0 ? value - values[i - 1] : value);
    for (let plane = 0; plane < width; plane++) {
      out[plane * values.length + i] = Number((stored >> BigInt(8 * plane)) & 255n);
    }
  });
  return out;
}

async function deflate(data: Uint8Array<ArrayBuffer> | string): Promise<Uint8Array<ArrayBuffer>> {
  const stream = new Blob([data]).stream().pipeThrough(new CompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

const CASES: [PageColumn["type"], bigint[]][] = [
  ["u8", [0n, 255n, 3n, 200n]],
  ["u16", [65535n, 0n, 513n]],
  ["u32", [4294967295n, 0n, 1n << 31n, 65536n]],
  ["i64", [-1n, 0n, 9007199254740991n, -9007199254740991n, 5n, 1n << 32n, (1n << 32n) - 1n]],
  ["i64", []],
];

describe("decodeColumns", () => {
  for (const delta of [false, true]) {
    it.each(CASES)(`reads %s columns${delta ? " of differences" : ""}`, (type, values) => {
      const column = { name: "x", type, count: values.length, delta };
      expect(Array.from(decodeColumns(encode(values, column), [column]).x, BigInt)).toEqual(values);
    });
  }

  it("reads columns that follow each other", () => {
    const first: PageColumn = { name: "a", type: "u16", count: 2, delta: true };
    const second: PageColumn = { name: "b", type: "u8", count: 3, delta: false };
    const bytes = new Uint8Array([...encode([7n, 9n], first), ...encode([1n, 2n, 3n], second)]);
    const columns = decodeColumns(bytes, [first, second]);
    expect([...columns.a]).toEqual([7, 9]);
    expect([...columns.b]).toEqual([1, 2, 3]);
  });

  it("rejects a section of another size", () => {
    const column: PageColumn = { name: "a", type: "u32", count: 2, delta: false };
    expect(() => decodeColumns(new Uint8Array(7), [column])).toThrow("ends at byte 8");
    expect(() => decodeColumns(new Uint8Array(9), [column])).toThrow("the section has 9");
  });
});

describe("Sections", async () => {
  const column: PageColumn = { name: "a", type: "u32", count: 3, delta: true };
  const packed = await deflate(encode([1n, 5n, 2n], column));
  const text = await deflate('{"x": [1]}');
  const index = { one: { bytes: packed.length, columns: [column] }, words: { bytes: text.length, columns: null } };

  it("decodes a section once, when it is asked for", async () => {
    const asked: string[] = [];
    const sections = new Sections(index, async (name) => (asked.push(name), name === "p/one" ? packed : text), "p/");
    expect(asked).toEqual([]);
    const [first, second] = await Promise.all([sections.columns("one"), sections.columns("one")]);
    expect([...first.a]).toEqual([1, 5, 2]);
    expect(second).toBe(first);
    expect(await sections.document("words")).toEqual({ x: [1] });
    expect(asked).toEqual(["p/one", "p/words"]);
  });

  it("says which section is not there", async () => {
    const sections = new Sections(index, () => Promise.resolve(packed));
    await expect(sections.columns("two")).rejects.toThrow("no section two");
    await expect(sections.columns("words")).rejects.toThrow("is a JSON text");
  });

  it("inflates the zlib format", async () => {
    expect(new TextDecoder().decode(await inflate(text))).toBe('{"x": [1]}');
  });
});
