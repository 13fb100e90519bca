// SPDX-License-Identifier: Apache-2.0
/** Buttons side by side, of which one is chosen. */

export interface ButtonGroupProps<Key> {
  label: string; // for screen readers
  options: readonly (readonly [key: Key, words: string])[];
  chosen: Key;
  onChoose: (key: Key) => void;
  class?: "segmented" | "seg"; // "seg" on the live page
}

export function ButtonGroup<Key extends string | number>(props: ButtonGroupProps<Key>) {
  return (
    <div class={props.class ?? "segmented"} role="group" aria-label={props.label}>
      {props.options.map(([key, words]) => (
        <button type="button" key={key} aria-pressed={key === props.chosen} onClick={() => props.onChoose(key)}>
          {words}
        </button>
      ))}
    </div>
  );
}
