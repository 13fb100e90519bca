// SPDX-License-Identifier: Apache-2.0
/** Paints the bank at the chosen moment, beside an address map. */
import type { PageColours } from "./canvas";
import { css } from "./colours";
import { human, short } from "./format";
import type { BankAtMoment, MapView } from "./map_layout";
import type { Plot } from "./map_paint";
import { BANK_PIXELS, hatch, yOf } from "./map_paint";

const BAR_PIXELS = 16;

/** The bank at the moment, beside the plot and to its scale: used by colour, free, and the largest free block. */
export function paintBank(
  context: CanvasRenderingContext2D,
  plot: Plot,
  view: MapView,
  bank: BankAtMoment,
  used: readonly { low: number; high: number; colour: number | null }[], // null: a program
  colours: PageColours,
): void {
  const left = plot.left + plot.width + 12;
  const bottom = plot.top + plot.height;
  context.save();
  context.beginPath();
  context.rect(left - 1, plot.top - 1, BANK_PIXELS, plot.height + 2);
  context.clip();
  context.fillStyle = colours.sunken;
  context.fillRect(left, plot.top, BAR_PIXELS, plot.height);
  for (const block of used) {
    const top = yOf(view, plot, block.high);
    context.fillStyle = block.colour === null ? hatch(context, colours) : css(block.colour);
    context.fillRect(left, top, BAR_PIXELS, Math.max(1, yOf(view, plot, block.low) - top));
  }
  context.strokeStyle = colours.strong;
  context.strokeRect(left - 0.5, plot.top - 0.5, BAR_PIXELS + 1, plot.height + 1);
  const block = bank.largest;
  if (block && block.high > view.low && block.low < view.high) {
    const high = Math.max(plot.top, yOf(view, plot, block.high));
    const low = Math.min(bottom, yOf(view, plot, block.low));
    const x = left + BAR_PIXELS + 5;
    context.strokeStyle = colours.text;
    context.beginPath();
    context.moveTo(x - 3, high + 0.5);
    context.lineTo(x + 1, high + 0.5);
    context.lineTo(x + 1, low - 0.5);
    context.lineTo(x - 3, low - 0.5);
    context.stroke();
    const middle = Math.min(bottom - 14, Math.max(plot.top + 14, (high + low) / 2));
    context.textBaseline = "middle";
    context.textAlign = "left";
    context.fillStyle = colours.text;
    context.font = `600 11px ${colours.sans}`;
    const bytes = block.high - block.low;
    context.fillText(bank.complete ? short(bytes) : `≤ ${human(bytes)}`, x + 6, middle - 7);
    context.font = `11px ${colours.sans}`;
    context.fillStyle = colours.soft;
    context.fillText("largest free", x + 6, middle + 7);
  }
  context.restore();
}
