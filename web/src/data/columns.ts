// SPDX-License-Identifier: Apache-2.0
/**
 * Decodes binary sections: a compressed block of columns. A column is stored as byte planes (the lowest bytes of all
 * values, then the next ones, and so on), of the values themselves or of their differences.
 */
import type { PageColumn, PageSection } from "../documents";

export type Column = Uint8Array | Uint16Array | Uint32Array | Float64Array;
export type Columns = Record<string, Column>;

const WIDTHS = { u8: 1, u16: 2, u32: 4, i64: 8 } as const;

/** The bytes of a block in zlib format. */
export async function inflate(compressed: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>> {
  const stream = new Blob([compressed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Columns by name, from the inflated bytes of a section. */
export function decodeColumns(bytes: Uint8Array, columns: readonly PageColumn[]): Columns {
  const decoded: Columns = {};
  let at = 0;
  for (const column of columns) {
    const size = WIDTHS[column.type] * column.count;
    if (at + size > bytes.length) {
      throw new Error(`column ${column.name} ends at byte ${at + size}, the section has ${bytes.length}`);
    }
    decoded[column.name] = decodeColumn(bytes.subarray(at, at + size), column);
    at += size;
  }
  if (at !== bytes.length) throw new Error(`the columns have ${at} bytes, the section has ${bytes.length}`);
  return decoded;
}

function decodeColumn(bytes: Uint8Array, column: PageColumn): Column {
  const { count, delta } = column;
  switch (column.type) {
    case "u8":
      return delta ? runningSum(bytes.slice()) : bytes.slice();
    case "u16":
      return planes(bytes, new Uint16Array(count), delta);
    case "u32":
      return planes(bytes, new Uint32Array(count), delta);
    case "i64":
      return signed(bytes, count, delta);
  }
}

/** Integer columns wrap around as they did when the differences were made. */
function planes<T extends Uint16Array | Uint32Array>(bytes: Uint8Array, values: T, delta: boolean): T {
  const count = values.length;
  for (let plane = 0; plane < values.BYTES_PER_ELEMENT; plane++) {
    const shift = 8 * plane;
    const start = plane * count;
    for (let i = 0; i < count; i++) values[i] |= bytes[start + i] << shift;
  }
  return delta ? runningSum(values) : values;
}

function runningSum<T extends Uint8Array | Uint16Array | Uint32Array>(values: T): T {
  for (let i = 1; i < values.length; i++) values[i] += values[i - 1];
  return values;
}

/** Values and differences of values below 2**53 are exact as floats. */
function signed(bytes: Uint8Array, count: number, delta: boolean): Float64Array {
  const values = new Float64Array(count);
  const [b1, b2, b3, b4, b5, b6, b7] = [1, 2, 3, 4, 5, 6, 7].map((plane) => plane * count);
  let sum = 0;
  for (let i = 0; i < count; i++) {
    const low = (bytes[i] | (bytes[b1 + i] << 8) | (bytes[b2 + i] << 16) | (bytes[b3 + i] << 24)) >>> 0;
    const high = bytes[b4 + i] | (bytes[b5 + i] << 8) | (bytes[b6 + i] << 16) | (bytes[b7 + i] << 24);
    const value = high * 4294967296 + low;
    sum = delta ? sum + value : value;
    values[i] = sum;
  }
  return values;
}

/** Gives sections, decoded at the first request and kept. `load` gets compressed bytes by name. */
export class Sections {
  private readonly decoded = new Map<string, Promise<Columns>>();
  private readonly documents = new Map<string, Promise<unknown>>();

  constructor(
    private readonly index: Record<string, PageSection>,
    private readonly load: (name: string) => Promise<Uint8Array<ArrayBuffer>>,
    private readonly prefix = "",
  ) {}

  has(name: string): boolean {
    return name in this.index;
  }

  columns(name: string): Promise<Columns> {
    return remembered(this.decoded, name, async () => {
      const columns = this.entry(name).columns;
      if (columns === null) throw new Error(`section ${name} is a JSON text`);
      return decodeColumns(await this.bytes(name), columns);
    });
  }

  /** A section that is a JSON text. */
  document<T>(name: string): Promise<T> {
    return remembered(this.documents, name, async () =>
      JSON.parse(new TextDecoder().decode(await this.bytes(name))),
    ) as Promise<T>;
  }

  private entry(name: string): PageSection {
    const entry = this.index[name];
    if (entry === undefined) throw new Error(`the report has no section ${name}`);
    return entry;
  }

  private async bytes(name: string): Promise<Uint8Array<ArrayBuffer>> {
    return inflate(await this.load(this.prefix + name));
  }
}

function remembered<T>(cache: Map<string, Promise<T>>, name: string, make: () => Promise<T>): Promise<T> {
  let known = cache.get(name);
  if (known === undefined) {
    known = make();
    cache.set(name, known);
  }
  return known;
}
